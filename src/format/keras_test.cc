#include "format/keras.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <thread>

#include "base/sanitizers.h"
#include "format/keras_parse.h"
#include "format/sandbox.h"
#include "format/test_files.h"

namespace dure::format {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class KerasFiles : public FormatTest {
 protected:
  static std::string why(const json& config) {
    const auto model = parseKeras(asFile(config.dump()));
    if (model) return "read";
    EXPECT_EQ(model.error().code(), Code::kInvalid);
    return model.error().message();
  }
};

Array numbers(DType type, std::vector<std::int64_t> shape) {
  Array made = makeArray(type, std::move(shape));
  for (std::size_t i = 0; i < made.bytes(); ++i) writableData(made)[i] = std::byte(i % 50);
  return made;
}

KerasModel small() {
  KerasModel model{.name = "mine"};
  model.layers.push_back(
      {.type = "InputLayer", .name = "input_1", .config = {{"batch_input_shape", {nullptr, 4}}}});
  model.layers.push_back(
      {.type = "Dense",
       .name = "dense",
       .config = {{"units", 3}, {"activation", "relu"}},
       .weights = {{"kernel", numbers(DType::kF32, {4, 3})}, {"bias", numbers(DType::kF16, {3})}}});
  model.layers.push_back({.type = "Flatten", .name = "flatten", .config = json::object()});
  model.layers.push_back({.type = "LSTM",
                          .name = "block/lstm",
                          .config = {{"units", 1}},
                          .weights = {{"lstm_cell/kernel", numbers(DType::kF64, {3, 4})},
                                      {"lstm_cell/count", numbers(DType::kI64, {})}}});
  model.training_config = {{"loss", "mse"}};
  return model;
}

json layer(const char* type, const char* name) {
  return {{"class_name", type}, {"config", {{"name", name}}}};
}

json sequential(const json& layers) {
  return {{"class_name", "Sequential"}, {"config", {{"name", "m"}, {"layers", layers}}}};
}

TEST_F(KerasFiles, AsKerasWritesThemAreRead) {
  for (const char* name : {"keras.h5", "keras_fixed.h5"}) {
    const auto model = readKeras(goldenPath(name));
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ(model->name, "sequential");
    EXPECT_EQ(model->training_config["loss"], "mse");
    ASSERT_EQ(model->layers.size(), 4u);
    EXPECT_EQ(model->layers[0].type, "InputLayer");
    const KerasLayer& dense = model->layers[1];
    EXPECT_EQ(dense.name, "dense");
    EXPECT_EQ(dense.config["units"], 3);
    EXPECT_FALSE(dense.config.contains("name"));
    ASSERT_EQ(dense.weights.size(), 2u);
    EXPECT_EQ(dense.weights[0].first, "kernel");
    EXPECT_THAT(dense.weights[0].second.shape, ElementsAre(4, 3));
    EXPECT_EQ(numbersOf(dense.weights[0].second), counting(12));
    EXPECT_EQ(dense.weights[1].first, "bias");
    EXPECT_THAT(model->layers[2].weights, IsEmpty());
    // Of a big-endian, a half and a double.
    const KerasLayer& lstm = model->layers[3];
    ASSERT_EQ(lstm.weights.size(), 3u);
    EXPECT_EQ(lstm.weights[0].first, "kernel");
    EXPECT_EQ(numbersOf(lstm.weights[0].second), counting(12));
    EXPECT_EQ(lstm.weights[1].second.dtype, DType::kF16);
    EXPECT_EQ(numbersOf(lstm.weights[1].second), counting(4));
    EXPECT_EQ(lstm.weights[2].second.dtype, DType::kF64);
  }
}

TEST_F(KerasFiles, ArchitecturesAreReadFromJson) {
  const auto model = readKeras(goldenPath("keras.json"));
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->layers.size(), 4u);
  EXPECT_THAT(model->layers[1].weights, IsEmpty());
}

TEST_F(KerasFiles, AreReadAsTheyWereWritten) {
  const KerasModel model = small();
  ASSERT_TRUE(writeKeras(path("model.h5"), model));
  const auto read = readKeras(path("model.h5"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->name, "mine");
  EXPECT_EQ(read->training_config, model.training_config);
  ASSERT_EQ(read->layers.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read->layers[i].type, model.layers[i].type);
    EXPECT_EQ(read->layers[i].name, model.layers[i].name);
    EXPECT_EQ(read->layers[i].config, model.layers[i].config);
    ASSERT_EQ(read->layers[i].weights.size(), model.layers[i].weights.size());
    for (std::size_t w = 0; w < model.layers[i].weights.size(); ++w) {
      const Array& wrote = model.layers[i].weights[w].second;
      const Array& got = read->layers[i].weights[w].second;
      EXPECT_EQ(got.dtype, wrote.dtype);
      EXPECT_EQ(got.shape, wrote.shape);
      EXPECT_EQ(std::memcmp(got.data, wrote.data, wrote.bytes()), 0);
    }
  }
  EXPECT_EQ(read->layers[3].weights[0].first, "kernel");
  EXPECT_THAT(listDirectory(directory()), ElementsAre("model.h5"));
}

TEST_F(KerasFiles, KeepWhatStandsBesideTheModel) {
  KerasModel model = small();
  model.attributes = {{"samples", "25000"}, {"class_names", "[\"a\"]"}};
  model.words = std::string(200'000, 'x') + "\né";
  ASSERT_TRUE(writeKeras(path("beside.h5"), model));
  const auto again = readKeras(path("beside.h5"));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->attributes, model.attributes);
  EXPECT_EQ(again->words, model.words);
}

TEST_F(KerasFiles, OfTheSameModelAreTheSame) {
  ASSERT_TRUE(writeKeras(path("one.h5"), small()));
  ASSERT_TRUE(writeKeras(path("two.h5"), small()));
  EXPECT_EQ(*readFile(path("one.h5"), 1u << 20u), *readFile(path("two.h5"), 1u << 20u));
}

TEST_F(KerasFiles, HoldMoreThanOneAttributeCan) {
  KerasModel model;
  for (int i = 0; i < 1500; ++i) {
    model.layers.push_back(
        {.type = "Dense",
         .name = "a_layer_with_quite_a_long_name_" + std::string(20, 'x') + std::to_string(i),
         .config = {{"units", i}},
         .weights = {{"bias", numbers(DType::kF32, {1})}}});
  }
  ASSERT_TRUE(writeKeras(path("model.h5"), model));
  const auto read = readKeras(path("model.h5"));
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->layers.size(), 1500u);
  EXPECT_EQ(read->layers[1499].weights.size(), 1u);
  EXPECT_EQ(read->layers[1499].config["units"], 1499);
}

TEST_F(KerasFiles, AreWrittenWholeOrNotAtAll) {
  write("model.h5", "the old one");
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit little{.rlim_cur = 4096, .rlim_max = 4096};
    setrlimit(RLIMIT_FSIZE, &little);
    _exit(writeKeras(path("model.h5"), small()) ? 1 : 0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(listDirectory(directory()), ElementsAre("model.h5"));
  EXPECT_EQ(*readFile(path("model.h5"), 100), "the old one");
}

TEST_F(KerasFiles, ModelsThatCannotBeWrittenAreRefused) {
  KerasModel model = small();
  model.layers[2].name = "dense";
  EXPECT_THAT(writeKeras(path("m"), model).error().message(), HasSubstr("two layers"));
  model.layers[2].name = "";
  EXPECT_FALSE(writeKeras(path("m"), model));
  model = small();
  model.layers[1].weights[0].second.dtype = DType::kBF16;
  EXPECT_THAT(writeKeras(path("m"), model).error().message(), HasSubstr("bfloat16"));
  EXPECT_THAT(listDirectory(directory()), IsEmpty());
}

// The allocator of the sanitizer, unlike that of the C library, does not survive a fork() beside
// threads that allocate.
#if DURE_ADDRESS_SANITIZER
constexpr bool kReadsBesideThreads = false;
#else
constexpr bool kReadsBesideThreads = true;
#endif

TEST_F(KerasFiles, ThreadsWaitForEachOther) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const std::string name = path(std::to_string(i));
      for (int turn = 0; turn < 5; ++turn) {
        EXPECT_TRUE(writeKeras(name, small()));
        if (kReadsBesideThreads) {
          EXPECT_TRUE(readKeras(name));
        }
      }
    });
  }
}

TEST_F(KerasFiles, ChainsOfLayersAreReadWhateverTheyAreCalled) {
  json first = layer("InputLayer", "in");
  first["inbound_nodes"] = json::array();
  json second = layer("Dense", "out");
  second["inbound_nodes"] = json::parse(R"([[["in", 0, 0, {}]]])");
  json config = sequential({first, second});
  config["class_name"] = "Functional";
  EXPECT_EQ(why(config), "read");
  config["config"]["layers"][1]["inbound_nodes"][0][0][0] = "elsewhere";
  EXPECT_THAT(why(config), HasSubstr("'out' does not follow"));
  // As Keras had it before 2.2.3.
  EXPECT_EQ(why({{"class_name", "Sequential"}, {"config", json::array({layer("Dense", "a")})}}),
            "read");
}

TEST_F(KerasFiles, ArchitecturesThatAreNotReadAreRefusedByName) {
  EXPECT_EQ(why(sequential(json::array({layer("Dense", "a")}))), "read");
  EXPECT_THAT(why(sequential(json::array({layer("Sequential", "inner")}))),
              HasSubstr("'inner' is itself a model"));
  EXPECT_THAT(why(sequential({layer("Dense", "a"), layer("Dense", "a")})), HasSubstr("two layers"));
  json first = layer("Conv2D", "conv");
  first["config"]["data_format"] = "channels_first";
  EXPECT_THAT(why(sequential(json::array({first}))),
              HasSubstr("'conv' has data_format channels_first"));
  EXPECT_THAT(why(sequential(json::array())), HasSubstr("no layers"));
  EXPECT_THAT(why(sequential(json::array({1}))), HasSubstr("layer 0 has no class_name"));
  EXPECT_THAT(why({{"class_name", "Adam"}}), HasSubstr("not a Keras model"));
  EXPECT_THAT(why(json::object()), HasSubstr("not a Keras model"));
  EXPECT_THAT(parseKeras(asFile("PK\x03\x04")).error().message(), HasSubstr("Keras 3"));
  EXPECT_FALSE(parseKeras(asFile("what?")));
  EXPECT_EQ(readKeras(path("nothing")).error().code(), Code::kNotFound);
}

TEST_F(KerasFiles, CutFilesAreRefused) {
  ASSERT_TRUE(writeKeras(path("model.h5"), small()));
  // Each is a process of its own: a cut here and there.
  const std::string whole = *readFile(path("model.h5"), 1u << 20u);
  for (std::size_t size = 0; size < whole.size(); size += 151) {
    const auto model = parseKeras(asFile(whole.substr(0, size)));
    ASSERT_FALSE(model) << "cut to " << size;
    EXPECT_EQ(model.error().code(), Code::kInvalid);
  }
  eachCut(golden("keras.json"),
          [](const std::string& cut) { ASSERT_FALSE(parseKeras(asFile(cut))); });
}

TEST_F(KerasFiles, FlippedBitsInHdf5DoNoHarm) {
  // Whatever the library does with them, this process goes on, and has a model or a sentence.
  const std::string whole = golden("keras.h5");
  std::string damaged = whole;
  for (std::size_t at = 0; at < whole.size(); at += 307) {
    for (const unsigned flip : {1u << (at % 8), 0xffu}) {
      damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(flip));
      const auto model = parseKeras(asFile(damaged, "net.h5"));
      if (!model) {
        EXPECT_THAT(model.error().message(), HasSubstr("net.h5"));
      }
      damaged[at] = whole[at];
    }
  }
}

TEST_F(KerasFiles, ACrashOfTheReaderIsAnError) {
  const auto crash = [](int signal) {
    return makeInSandbox("net.h5", [signal](int) -> Status {
      ::signal(signal, SIG_DFL);
      raise(signal);
      return {};
    });
  };
  for (const int signal : {SIGKILL, SIGTERM}) {
    const auto made = crash(signal);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Code::kInvalid);
    EXPECT_THAT(made.error().message(), HasSubstr("net.h5 is damaged: the process that read it was "
                                                  "killed by SIG"));
  }
  const auto refused =
      makeInSandbox("net.h5", [](int) { return Status(Error(Code::kNotFound, "not here")); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kNotFound);
  EXPECT_EQ(refused.error().message(), "not here");
  const auto thrown = makeInSandbox("net.h5", [](int) -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(thrown.error().code(), Code::kUnavailable);
  const auto made = makeInSandbox("net.h5", [](int fd) { return writeAll(fd, "bytes"); });
  ASSERT_TRUE(made);
  EXPECT_EQ(made->text(), "bytes");
}

TEST_F(KerasFiles, FlippedBitsInTheArchitectureDoNoHarm) {
  eachFlip(golden("keras.json"),
           [](const std::string& damaged) { static_cast<void>(parseKeras(asFile(damaged))); });
}

}  // namespace
}  // namespace dure::format
