// Models from files and into files.

#include <gmock/gmock.h>
#include <torch/script.h>

#include <cstdlib>
#include <fstream>

#include "base/files.h"
#include "train/model_files.h"
#include "train/network.h"
#include "train/optimizer.h"

namespace dure::train {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ModelsTest : public testing::Test {
 protected:
  ~ModelsTest() override { static_cast<void>(removeTree(directory_)); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  // x·weightᵀ + bias, and a count of the batches that were seen. The weights do not learn.
  std::string writeModule(
      const std::string& forward =
          "def forward(self, x):\n"
          "    if self.training:\n"
          "        self.seen.add_(1)\n"
          "    return torch.addmm(self.bias, x, torch.t(self.weight))\n") const {
    torch::manual_seed(1);
    torch::jit::Module module("Own");
    module.register_parameter("weight", at::randn({3, 4}), false);
    module.register_parameter("bias", at::randn({3}).requires_grad_(true), false);
    module.register_buffer("seen", at::zeros({}, at::kLong));
    module.register_buffer("mean", at::zeros({3}));
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define(forward);
    module.save(path("net.pt"));
    return path("net.pt");
  }

  std::string writeKerasModel(const json& layers) const {
    std::ofstream(path("net.json"))
        << json{{"class_name", "Sequential"}, {"config", {{"layers", layers}}}};
    return path("net.json");
  }

  static spec::Train trainOf(const std::string& file) {
    spec::Train train;
    train.model.file = file;
    return train;
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-models-XXXXXX";
    return mkdtemp(name.data());
  }
  const std::string directory_ = make();
};

json layer(const std::string& type, json config) {
  if (!config.contains("name")) config["name"] = "it";
  return {{"class_name", type}, {"config", std::move(config)}};
}

// One step of plain SGD towards outputs of 0, with a weight decay that pulls at everything.
void step(Network& network, const at::Tensor& input) {
  const StepRandom random{};
  network.beginStep(false);
  network.forward(input, &random).square().sum().backward();
  spec::Optimizer settings{.name = "sgd", .weight_decay = 0.1};
  FlatOptimizer optimizer(settings, network.parameters().values().numel());
  optimizer.step(network.parameters().values(), network.parameters().grads(), 0.01);
}

at::Tensor valueOf(Network& network, const std::string& name) {
  for (std::size_t i = 0; i < network.parameters().size(); ++i) {
    if (network.parameters()[i].name == name) return network.parameters()[i].value.detach().clone();
  }
  ADD_FAILURE() << "there is no " << name;
  return {};
}

TEST_F(ModelsTest, AModuleIsWrittenWithAllOfItsWeights) {
  auto network = loadScriptNetwork(writeModule());
  ASSERT_TRUE(network) << network.error().message();
  const at::Tensor input = at::randn({5, 4});
  step(**network, input);
  const at::Tensor expected = (*network)->forward(input, nullptr).detach().clone();
  const auto saved = (*network)->save(path("out.pt"), {});
  ASSERT_TRUE(saved) << saved.error().message();
  torch::jit::Module read = torch::jit::load(path("out.pt"));
  EXPECT_TRUE(at::equal(read.forward({input}).toTensor(), expected));
  EXPECT_EQ(read.attr("weight").toTensor().storage().nbytes(), 12 * sizeof(float));
  EXPECT_FALSE(read.is_training());
  // And goes on learning where it was: its weights lie in the flat buffer again.
  step(**network, input);
  EXPECT_FALSE(at::equal((*network)->forward(input, nullptr), expected));
  for (const Parameter& parameter : (*network)->parameters().all()) {
    EXPECT_EQ(parameter.value.data_ptr<float>(),
              (*network)->parameters().values().data_ptr<float>() + parameter.offset);
  }
}

TEST_F(ModelsTest, WhatAModuleHasFrozenStaysAsItIs) {
  auto network = loadScriptNetwork(writeModule());
  ASSERT_TRUE(network);
  EXPECT_EQ((*network)->parameters().count(), 3);
  const at::Tensor weight = valueOf(**network, "weight");
  const at::Tensor bias = valueOf(**network, "bias");
  step(**network, at::randn({5, 4}));
  EXPECT_TRUE(at::equal(valueOf(**network, "weight"), weight));
  EXPECT_FALSE(at::equal(valueOf(**network, "bias"), bias));
  ASSERT_TRUE((*network)->save(path("out.safetensors"), {}));
  EXPECT_NE(format::readSafetensors(path("out.safetensors"))->find("weight"), nullptr);
}

TEST_F(ModelsTest, WholeNumbersOfAModuleArePartOfItsState) {
  auto network = loadScriptNetwork(writeModule());
  ASSERT_TRUE(network);
  step(**network, at::randn({5, 4}));
  const auto buffers = (*network)->buffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].scalar_type(), at::kLong);
  EXPECT_EQ(buffers[0].item<std::int64_t>(), 1);
}

TEST_F(ModelsTest, ModulesThatDoNotFitTheDataAreRefusedInASentence) {
  const auto why = [&](const std::string& file, const DataShape& data) {
    const auto network = makeNetwork(trainOf(file), data);
    if (network) return std::string("made");
    EXPECT_EQ(network.error().code(), Code::kInvalid);
    return network.error().message();
  };
  const std::string file = writeModule();
  EXPECT_EQ(why(file, {.sample = {4}, .classes = 3}), "made");
  EXPECT_THAT(why(file, {.sample = {4}, .classes = 10}),
              HasSubstr("net.pt gives 3 numbers for a sample, and this data needs 10, one for each "
                        "class"));
  EXPECT_THAT(why(file, {.sample = {4}}), HasSubstr("needs 1, since the labels are numbers"));
  EXPECT_THAT(why(file, {.sample = {5}, .classes = 3}),
              HasSubstr("net.pt does not take samples of numbers of shape [5]"));
  EXPECT_THAT(why(writeModule("def forward(self, x):\n    return x.sum()\n"), {.sample = {4}}),
              HasSubstr("gives a result of shape [] for 2 samples"));
  EXPECT_THAT(why(writeModule("def forward(self, x):\n"
                              "    assert x.size(0) == 0, 'too hot'\n"
                              "    return x\n"),
                  {.sample = {4}}),
              testing::AllOf(HasSubstr("net.pt does not take samples"), HasSubstr("too hot")));
  const std::string keras = writeKerasModel(json::array({layer("Dense", {{"units", 4}})}));
  EXPECT_EQ(why(keras, {.sample = {4}, .classes = 4}), "made");
  EXPECT_THAT(why(keras, {.sample = {4}}), HasSubstr("net.json gives 4 numbers for a sample"));
  std::ofstream(path("net.pt")) << "PK\x03\x04 this is no module";
  EXPECT_THAT(why(path("net.pt"), {.sample = {4}}), HasSubstr("not a TorchScript module"));
}

TEST_F(ModelsTest, LayersOfAnyNameAreWrittenAsTorchScript) {
  const std::vector<std::string> names{"dense-1", "dense_1", "1st", "lambda",
                                       "forward", "a.b",     "ß"};
  json layers = json::array();
  for (const std::string& name : names)
    layers.push_back(layer("Dense", {{"name", name}, {"units", 3}, {"activation", "tanh"}}));
  auto network = makeNetwork(trainOf(writeKerasModel(layers)), {.sample = {4}, .classes = 3});
  ASSERT_TRUE(network) << network.error().message();
  const auto saved = (*network)->save(path("out.pt"), {});
  ASSERT_TRUE(saved) << saved.error().message();
  torch::jit::Module read = torch::jit::load(path("out.pt"));
  const at::Tensor input = at::randn({5, 4});
  EXPECT_TRUE(at::allclose(read.forward({input}).toTensor(), (*network)->forward(input, nullptr)));
  EXPECT_TRUE(read.hasattr("dense_1"));
  // Which can be trained on.
  auto again = makeNetwork(trainOf(path("out.pt")), {.sample = {4}, .classes = 3});
  EXPECT_TRUE(again) << again.error().message();
}

TEST_F(ModelsTest, LayersThatAreNotTrainableStayAsTheyAre) {
  struct Case {
    std::string type;
    std::string weight;
    at::Tensor input;
  };
  for (const Case& c : {Case{"Dense", "f.weight", at::randn({5, 4})},
                        Case{"LSTM", "f.weight_ih", at::randn({5, 2, 3})},
                        Case{"Conv2D", "f.weight", at::randn({5, 5, 4, 2})}}) {
    json layers = json::array();
    if (c.type == "Dense") layers.push_back(layer("Dense", {{"name", "before"}, {"units", 4}}));
    layers.push_back(layer(
        c.type,
        {{"name", "f"}, {"units", 3}, {"filters", 3}, {"kernel_size", 2}, {"trainable", false}}));
    layers.push_back(layer("Flatten", {{"name", "flat"}}));
    layers.push_back(layer("Dense", {{"name", "last"}, {"units", 2}}));
    const DataShape data{.sample = c.input[0].sizes().vec(), .classes = 2};
    auto network = makeNetwork(trainOf(writeKerasModel(layers)), data);
    ASSERT_TRUE(network) << network.error().message();
    const at::Tensor before = valueOf(**network, c.weight);
    const at::Tensor last = valueOf(**network, "last.weight");
    step(**network, c.input);
    EXPECT_TRUE(at::equal(valueOf(**network, c.weight), before)) << c.type;
    EXPECT_FALSE(at::equal(valueOf(**network, "last.weight"), last)) << c.type;
    ASSERT_TRUE((*network)->save(path("out.h5"), {}));
    const auto read = format::readKeras(path("out.h5"));
    ASSERT_TRUE(read) << read.error().message();
    const auto frozen =
        std::find_if(read->layers.begin(), read->layers.end(),
                     [](const format::KerasLayer& each) { return each.name == "f"; });
    ASSERT_NE(frozen, read->layers.end());
    EXPECT_EQ(frozen->config["trainable"], false);
    EXPECT_FALSE(frozen->weights.empty());
  }
  const auto all = makeNetwork(
      trainOf(writeKerasModel(json::array({layer("Dense", {{"units", 2}, {"trainable", false}})}))),
      {.sample = {4}, .classes = 2});
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().message(), HasSubstr("nothing to learn"));
}

TEST_F(ModelsTest, OptionsOfLayersThatAreNotThereAreRefusedByName) {
  const auto why = [](const std::string& type, json config) {
    config["units"] = config["filters"] = config["output_dim"] = config["input_dim"] = 3;
    const format::KerasModel model{
        .layers = {{.type = type, .name = "it", .config = std::move(config)}}};
    const auto made = fromKeras(model);
    return made ? std::string("made") : made.error().message();
  };
  const json l2 = {{"class_name", "L2"}, {"config", {{"l2", 0.01}}}};
  EXPECT_EQ(why("Dense", {{"kernel_regularizer", nullptr}, {"activation", "relu"}}), "made");
  EXPECT_EQ(why("LSTM", {{"dropout", 0.0}, {"stateful", false}, {"unroll", true}}), "made");
  EXPECT_EQ(why("Conv2D", {{"dilation_rate", {1, 1}}, {"groups", 1}, {"kernel_size", 3}}), "made");
  EXPECT_THAT(why("Dense", {{"kernel_regularizer", l2}}),
              HasSubstr("the layer it: kernel_regularizer must be null, not L2"));
  EXPECT_THAT(why("Dense", {{"activity_regularizer", l2}}), HasSubstr("activity_regularizer"));
  EXPECT_THAT(why("Embedding", {{"embeddings_constraint", l2}}),
              HasSubstr("embeddings_constraint"));
  EXPECT_THAT(why("Dense", {{"activation", {{"class_name", "LeakyReLU"}, {"config", {}}}}}),
              HasSubstr("the activation LeakyReLU is not among those"));
  for (const char* option : {"return_state", "stateful", "go_backwards", "time_major"})
    EXPECT_THAT(why("LSTM", {{option, true}}), HasSubstr(std::string(option) + " must be false"));
  for (const char* option : {"dropout", "recurrent_dropout"})
    EXPECT_THAT(why("LSTM", {{option, 0.2}}),
                HasSubstr(std::string(option) + " must be 0, not 0.2"));
  EXPECT_THAT(why("LSTM", {{"activation", "relu"}}), HasSubstr("must be tanh"));
  EXPECT_THAT(why("Embedding", {{"mask_zero", true}}), HasSubstr("mask_zero must be false"));
  EXPECT_THAT(why("Conv2D", {{"dilation_rate", {2, 2}}}), HasSubstr("dilation_rate must be 1"));
  EXPECT_THAT(why("Conv2D", {{"padding", "causal"}}), HasSubstr("padding must be valid or same"));
  EXPECT_THAT(why("GlobalAveragePooling2D", {{"keepdims", true}}), HasSubstr("keepdims"));
  EXPECT_THAT(why("Dense", {{"dtype", "mixed_float16"}}), HasSubstr("dtype must be float32"));
  EXPECT_THAT(why("Dense", {{"kernel_initializer", "he_normal"}}),
              HasSubstr("kernel_initializer must be"));
}

// Samples of bytes, as a data set has them.
const ModelAbout& bytesAbout() {
  static const ModelAbout about{.sample = {8, 8},
                                .scaling = {.factor = 0.0125F, .offset = -1.5F},
                                .class_names = {"cat", "dog", "hen"}};
  return about;
}

TEST_F(ModelsTest, WhatIsWrittenTakesSamplesAsTheDataHasThem) {
  const DataShape data{.sample = {8, 8}, .classes = 3};
  const at::Tensor bytes = at::randint(0, 256, {5, 8, 8}, at::kByte);
  const at::Tensor scaled = bytes.to(at::kFloat) * 0.0125F - 1.5F;
  for (const char* name : {"convnet", "mlp", "linear"}) {
    spec::Train train;
    train.model.name = name;
    auto network = makeNetwork(train, data);
    ASSERT_TRUE(network) << network.error().message();
    const at::Tensor expected = at::softmax((*network)->forward(scaled, nullptr), -1);
    ASSERT_TRUE((*network)->save(path("out.pt"), bytesAbout()));
    torch::jit::Module read = torch::jit::load(path("out.pt"));
    EXPECT_FALSE(read.attr("training").toBool());
    EXPECT_TRUE(at::allclose(read.forward({bytes}).toTensor(), expected, 1e-4, 1e-5)) << name;
    EXPECT_TRUE(
        at::allclose(read.forward({bytes.to(at::kDouble)}).toTensor(), expected, 1e-4, 1e-5));
    const auto names = read.attr("class_names").toListRef();
    ASSERT_EQ(names.size(), 3u);
    EXPECT_EQ(names[1].toStringRef(), "dog");
    ASSERT_TRUE((*network)->save(path("out.h5"), bytesAbout()));
    const auto keras = format::readKeras(path("out.h5"));
    ASSERT_TRUE(keras) << keras.error().message();
    ASSERT_GT(keras->layers.size(), 2u);
    EXPECT_EQ(keras->layers[1].type, "Rescaling");
    EXPECT_EQ(keras->layers[1].config["scale"].get<float>(), 0.0125F);
    EXPECT_EQ(keras->layers[1].config["offset"].get<float>(), -1.5F);
  }
}

TEST_F(ModelsTest, WhatIsWrittenGoesOnAsWhatItWas) {
  const DataShape data{.sample = {8, 8}, .classes = 3};
  const at::Tensor input = at::randn({5, 8, 8});
  spec::Train train;
  train.model.name = "convnet";
  train.model.dropout = 0;
  auto network = makeNetwork(train, data);
  ASSERT_TRUE(network) << network.error().message();
  const at::Tensor expected = (*network)->forward(input, nullptr).detach().clone();
  for (const char* file : {"out.pt", "out.h5"}) {
    ASSERT_TRUE((*network)->save(path(file), bytesAbout()));
    const auto about = inputOf(trainOf(path(file)).model);
    ASSERT_TRUE(about) << about.error().message();
    EXPECT_EQ(about->scaling, bytesAbout().scaling) << file;
    auto again = makeNetwork(trainOf(path(file)), data);
    ASSERT_TRUE(again) << again.error().message();
    // Logits, of images with their channels last, that learn in the same way.
    EXPECT_TRUE(at::equal((*again)->forward(input, nullptr), expected)) << file;
    step(**again, input);
    auto once = makeNetwork(train, data);
    step(**once, input);
    EXPECT_TRUE(at::equal((*again)->parameters().values(), (*once)->parameters().values())) << file;
  }
}

TEST_F(ModelsTest, LayersWithoutTheirDescriptionAreRefused) {
  torch::jit::Module module("Model");
  torch::jit::Module dense("Layer_dense", module._ivalue()->compilation_unit());
  dense.register_parameter("weight", at::zeros({3, 4}).requires_grad_(true), false);
  module.register_module("dense", dense);
  module.define("def forward(self, x):\n    return torch.mm(x, torch.t(self.dense.weight))\n");
  module.save(path("old.pt"));
  const auto network = makeNetwork(trainOf(path("old.pt")), {.sample = {4}, .classes = 3});
  ASSERT_FALSE(network);
  EXPECT_EQ(network.error().code(), Code::kInvalid);
  EXPECT_THAT(network.error().message(), HasSubstr("without their description"));
}

TEST_F(ModelsTest, WindowsThatDoNotFitAreRefusedOrLeftOut) {
  // 8 is 6 after a convolution, 3 after pooling, 1 after the second one: no second pooling.
  spec::Train train;
  train.model.name = "convnet";
  for (const std::int64_t size : {8, 9, 10, 28}) {
    auto network = makeNetwork(train, {.sample = {size, size}, .classes = 3});
    ASSERT_TRUE(network) << network.error().message();
    step(**network, at::randn({5, size, size}));
  }
  const auto small = makeNetwork(train, {.sample = {5, 5}, .classes = 3});
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error().message(), HasSubstr("conv2d_1 takes an image at least as large"));
  const std::string file = writeKerasModel(
      json::array({layer("MaxPooling2D", {{"name", "p"}, {"pool_size", 4}, {"strides", 3}}),
                   layer("Flatten", {{"name", "f"}}), layer("Dense", {{"units", 3}})}));
  EXPECT_TRUE(makeNetwork(trainOf(file), {.sample = {4, 4, 1}, .classes = 3}));
  const auto pooled = makeNetwork(trainOf(file), {.sample = {2, 2, 1}, .classes = 3});
  ASSERT_FALSE(pooled);
  EXPECT_THAT(pooled.error().message(), HasSubstr("the layer p takes an image at least as large"));
}

TEST_F(ModelsTest, SizesThatCannotBeCountedAreRefused) {
  const auto why = [&](json config) {
    const auto network =
        makeNetwork(trainOf(writeKerasModel(json::array({layer("Dense", config)}))),
                    {.sample = {4096}, .classes = 3});
    return network ? std::string("made") : network.error().message();
  };
  EXPECT_THAT(why({{"units", std::int64_t{1} << 50}}), HasSubstr("too large"));
  EXPECT_THAT(why({{"units", std::int64_t{1} << 62}}), HasSubstr("too large"));
}

TEST_F(ModelsTest, RescalingComesFirstOrNotAtAll) {
  const auto why = [](std::vector<format::KerasLayer> layers) {
    const auto made = fromKeras({.layers = std::move(layers)});
    return made ? std::string("made") : made.error().message();
  };
  const format::KerasLayer dense{.type = "Dense", .name = "d", .config = {{"units", 3}}};
  const format::KerasLayer scale{.type = "Rescaling", .name = "r", .config = {{"scale", 0.5}}};
  EXPECT_EQ(why({scale, dense}), "made");
  EXPECT_THAT(why({dense, scale}), HasSubstr("the layer r: Rescaling must be the first"));
  EXPECT_THAT(why({scale, scale, dense}), HasSubstr("must be the first"));
  EXPECT_THAT(why({{.type = "Rescaling", .name = "r", .config = {{"scale", {1, 2}}}}, dense}),
              HasSubstr("one number each"));
}

}  // namespace
}  // namespace dure::train
