#include "train/training_data.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "base/files.h"

namespace dure::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
std::vector<T> valuesOf(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), tensor.data_ptr<T>() + tensor.numel()};
}

class TrainingDataTest : public testing::Test {
 protected:
  ~TrainingDataTest() override { static_cast<void>(removeTree(directory_)); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  // As numpy writes it; `descr` is its name of the type.
  template <typename T>
  void write(const std::string& name, const std::string& descr, const std::string& shape,
             const std::vector<T>& numbers) const {
    std::string header =
        "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    const auto size = static_cast<std::uint16_t>(header.size());
    std::ofstream file(path(name), std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8);
    file.write(reinterpret_cast<const char*>(&size), sizeof size);
    file << header;
    file.write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size() * sizeof(T)));
  }

  // Two rows.
  template <typename T>
  void writeRows(const std::string& descr, const std::vector<T>& numbers) const {
    write("x_train.npy", descr, "(2, " + std::to_string(numbers.size() / 2) + ")", numbers);
    write<std::uint8_t>("y_train.npy", "|u1", "(2,)", {0, 1});
  }

  // A Keras model with this first layer.
  std::string writeModel(const std::string& layer) const {
    std::ofstream(path("net.json"))
        << R"({"class_name": "Sequential", "config": {"layers": [)" << layer << "]}}";
    return path("net.json");
  }

  spec::Train train(const std::string& model = "mlp") const {
    spec::Train made;
    made.data.path = directory_;
    (model.find('/') == std::string::npos ? made.model.name : made.model.file) = model;
    return made;
  }

  static at::Tensor samplesOf(const spec::Train& train) {
    const auto data = TrainingData::open(train);
    EXPECT_TRUE(data) << data.error().message();
    if (!data) return {};
    const std::int64_t rows[] = {0, 1};
    const auto batch = data->read(*data->dataset().train, rows);
    EXPECT_TRUE(batch);
    return batch->samples;
  }

  static std::string why(const spec::Train& train) {
    const auto data = TrainingData::open(train);
    if (data) return "opened";
    EXPECT_EQ(data.error().code(), Code::kInvalid);
    return data.error().message();
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-data-XXXXXX";
    return mkdtemp(name.data());
  }
  const std::string directory_ = make();
};

constexpr const char* kEmbedding = R"({"class_name": "Embedding",
    "config": {"name": "e", "input_dim": 40, "output_dim": 2}})";
constexpr const char* kDense = R"({"class_name": "Dense", "config": {"name": "d", "units": 2}})";

TEST_F(TrainingDataTest, ScalesShiftsAndShapesAsItIsTold) {
  writeRows<std::uint8_t>("|u1", {0, 51, 102, 255, 1, 2, 3, 4});
  spec::Train job = train();
  at::Tensor samples = samplesOf(job);
  EXPECT_THAT(samples.sizes().vec(), ElementsAre(2, 4));
  EXPECT_FLOAT_EQ(samples[0][1].item<float>(), 0.2f);
  EXPECT_FLOAT_EQ(samples[0][3].item<float>(), 1);
  // (x × scale - mean) / std
  job.data.scale = 0.5;
  job.data.mean = 2;
  job.data.std = 4;
  job.data.shape = {2, 2};
  samples = samplesOf(job);
  EXPECT_THAT(samples.sizes().vec(), ElementsAre(2, 2, 2));
  EXPECT_THAT(valuesOf<float>(samples[1]), ElementsAre(-0.375, -0.25, -0.125, 0));
  const auto about = TrainingData::open(job)->about().metadata();
  EXPECT_EQ(about.at("input_shape"), "[2, 2]");
  EXPECT_EQ(about.at("input_scale"), "0.125");
  EXPECT_EQ(about.at("input_offset"), "-0.5");
  job.data.shape = {3, 2};
  EXPECT_THAT(why(job), HasSubstr("train.data.shape: [3, 2] does not fit samples of shape [4]"));
}

constexpr const char* kRescaled = R"({"class_name": "Rescaling", "config": {"name": "r",
    "scale": 0.5, "offset": -2}}, {"class_name": "Dense", "config": {"name": "d", "units": 2}})";

TEST_F(TrainingDataTest, WhatAModelDoesToSamplesIsDoneOnce) {
  writeRows<std::uint8_t>("|u1", {0, 51, 102, 255});
  spec::Train job = train(writeModel(kRescaled));
  EXPECT_THAT(valuesOf<float>(samplesOf(job)), ElementsAre(-2, 23.5, 49, 125.5));
  // The job may say the same again.
  job.data.scale = 1;
  job.data.mean = 4;
  job.data.std = 2;
  EXPECT_THAT(valuesOf<float>(samplesOf(job)), ElementsAre(-2, 23.5, 49, 125.5));
  job.data.mean = 5;
  EXPECT_THAT(why(job), HasSubstr("net.json makes sample × 0.5 + -2 of samples, and scale, mean "
                                  "and std make it sample × 0.5 + -2.5; leave them out"));
}

TEST_F(TrainingDataTest, NumbersThatAreNotFiniteAreNamed) {
  writeRows<float>("<f4", {1, 2, 3, std::numeric_limits<float>::quiet_NaN()});
  const auto data = TrainingData::open(train());
  ASSERT_TRUE(data) << data.error().message();
  const std::int64_t rows[] = {1, 0};
  const auto batch = data->read(*data->dataset().train, rows);
  ASSERT_FALSE(batch);
  EXPECT_THAT(batch.error().message(), HasSubstr("x_train: row 1: value 2 of the sample is NaN"));
}

TEST_F(TrainingDataTest, OtherNumbersThanBytesAreTakenAsTheyAre) {
  writeRows<float>("<f4", {-1.5, 0, 300, 2});
  EXPECT_THAT(valuesOf<float>(samplesOf(train())), ElementsAre(-1.5, 0, 300, 2));
  writeRows<std::uint64_t>("<u8", {7, 0, 300, 2});
  EXPECT_THAT(valuesOf<float>(samplesOf(train())), ElementsAre(7, 0, 300, 2));
}

TEST_F(TrainingDataTest, TheModelSaysWhetherWholeNumbersAreWords) {
  writeRows<std::int32_t>("<i4", {1, 2, 30, 4});
  EXPECT_EQ(samplesOf(train("mlp")).scalar_type(), at::kFloat);
  EXPECT_EQ(samplesOf(train("text")).scalar_type(), at::kLong);
  EXPECT_EQ(TrainingData::open(train("text"))->shape().vocabulary, 31);
  EXPECT_EQ(samplesOf(train(writeModel(kDense))).scalar_type(), at::kFloat);
  EXPECT_EQ(samplesOf(train(writeModel(kEmbedding))).scalar_type(), at::kLong);
  EXPECT_EQ(TrainingData::open(train(path("net.json")))->shape().vocabulary, 40);
  // Bytes as well: 200 words fit into one.
  writeRows<std::uint8_t>("|u1", {1, 2, 3, 4});
  EXPECT_THAT(valuesOf<std::int64_t>(samplesOf(train(path("net.json")))), ElementsAre(1, 2, 3, 4));
  // What a module takes cannot be seen from its file.
  std::ofstream(path("net.pt")) << "a module";
  spec::Train script = train(path("net.pt"));
  EXPECT_EQ(samplesOf(script).scalar_type(), at::kFloat);
  script.model.vocabulary = 4;
  EXPECT_THAT(valuesOf<std::int64_t>(samplesOf(script)), ElementsAre(1, 2, 3, 2));
  writeRows<float>("<f4", {1, 2, 3, 4});
  EXPECT_THAT(why(train(path("net.json"))), HasSubstr("takes numbers of words, and the samples are "
                                                      "float32"));
}

TEST_F(TrainingDataTest, WordsThatAModelDoesNotKnowAreNamed) {
  writeRows<std::int32_t>("<i4", {1, 2, 51, 4});
  spec::Train job = train(writeModel(kEmbedding));
  EXPECT_THAT(why(job), HasSubstr("x_train: row 1: the word 51 is beyond the 40 that"));
  EXPECT_THAT(why(job), HasSubstr("net.json knows; train.model.vocabulary"));
  job.model.vocabulary = 40;
  EXPECT_THAT(valuesOf<std::int64_t>(samplesOf(job)), ElementsAre(1, 2, 2, 4));
  job.model.vocabulary = 41;
  EXPECT_THAT(why(job), HasSubstr("net.json knows 40 words, not 41"));
  job = train(writeModel(kDense));
  job.model.vocabulary = 40;
  EXPECT_THAT(why(job), HasSubstr("takes numbers, not words"));
}

TEST_F(TrainingDataTest, NumbersThatAreNoWordsAreRefused) {
  const auto mostOf = [](auto number) { return std::numeric_limits<decltype(number)>::max(); };
  for (const std::int64_t word : {std::int64_t{1'000'000'000}, mostOf(std::int64_t{})}) {
    writeRows<std::int64_t>("<i8", {1, 2, 3, word});
    EXPECT_THAT(why(train("text")),
                HasSubstr("row 1: the word " + std::to_string(word) +
                          " is beyond the 16777216 that can be counted; train.model.vocabulary"));
  }
  writeRows<std::uint64_t>("<u8", {1, mostOf(std::uint64_t{}), 3, 4});
  EXPECT_THAT(why(train("text")), HasSubstr("row 0: the word 9223372036854775807 is beyond"));
  writeRows<std::int64_t>("<i8", {1, -7, 3, 4});
  EXPECT_THAT(why(train("text")), HasSubstr("row 0: the word -7 is negative"));
  spec::Train job = train("text");
  job.model.vocabulary = 4;
  EXPECT_THAT(valuesOf<std::int64_t>(samplesOf(job)), ElementsAre(1, 2, 3, 2));
  job.model.vocabulary = 2;
  EXPECT_THAT(valuesOf<std::int64_t>(samplesOf(job)), ElementsAre(1, 1, 1, 1));
}

TEST_F(TrainingDataTest, WholeLabelsMayBeNumbersToPredict) {
  writeRows<float>("<f4", {1, 2, 3, 4});
  write<std::int32_t>("y_train.npy", "<i4", "(2,)", {250'000, -3});
  EXPECT_THAT(why(train()), HasSubstr("data.classes: 0"));
  spec::Train job = train();
  job.data.classes = 0;
  const auto data = TrainingData::open(job);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ(data->shape().classes, 0);
  const std::int64_t rows[] = {0, 1};
  EXPECT_THAT(valuesOf<float>(data->read(*data->dataset().train, rows)->labels),
              ElementsAre(250'000, -3));
}

}  // namespace
}  // namespace dure::train
