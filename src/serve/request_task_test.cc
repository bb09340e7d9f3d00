#include "serve/request_task.h"

#include <cstring>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/test_model.h"

namespace dure::serve {
namespace {

using nlohmann::json;

// The reply to a body, as the server would make it.
HttpReply replyTo(RequestTask& task, const Model& model) {
  Samples samples;
  const auto decoded = task.decode(model.info(), samples);
  if (!decoded) return errorReply(decoded.error());
  const Samples* const part = &samples;
  const auto made = model.run(std::span(&part, 1));
  return made ? task.encode(model.info(), *made) : errorReply(made.error());
}

json v1(const Model& model, const std::string& body) {
  const auto task = makeV1Task({.body = body});
  return json::parse(replyTo(*task, model).body);
}

HttpReply v2(const Model& model, const std::string& body, const std::string& json_length = "") {
  HttpRequest request{.body = body};
  if (!json_length.empty())
    request.headers.emplace_back("inference-header-content-length", json_length);
  return replyTo(*makeV2Task(std::move(request), {"sum", 7}), model);
}

TEST(V1Task, TakesRowsAndColumns) {
  const FakeModel model;
  EXPECT_EQ(v1(model, R"({"instances": [[1, 2], [3, 4.5]]})"),
            json::parse(R"({"predictions": [[3.0], [7.5]]})"));
  EXPECT_EQ(v1(model, R"({"signature_name": "serving_default", "instances": [{"input": [1, 2]}]})")
                ["predictions"][0][0],
            3.0);
  EXPECT_EQ(v1(model, R"({"inputs": [[1, 2]]})"), json::parse(R"({"outputs": [[3.0]]})"));
  EXPECT_EQ(v1(model, R"({"inputs": {"input": [[1, 2]]}})"),
            json::parse(R"({"outputs": [[3.0]]})"));
}

TEST(V1Task, SaysWhatIsWrong) {
  const FakeModel model;
  const std::vector<std::pair<const char*, const char*>> cases{
      {R"({"instances": [[1, 2, 3]]})",
       "instances: sample 0: a sample must be of shape [2], and this one is of shape [3]"},
      {R"({"instances": [[[1], [2, 3]]]})",
       "instances: sample 0: the lists of a sample must all be of the same length"},
      {R"({"instances": []})", "the request has no samples"},
      {R"({})", "the request has neither instances nor inputs"},
      {R"([1])", "not valid JSON: at offset 0: an object with instances or inputs is expected"},
      {R"({"instances": [[1, 2]])", "not valid JSON: at offset 22: a comma or } is expected"},
      {R"({"instances": ["text"]})",
       "instances: sample 0: the model takes numbers, and this sample is a text"},
      {R"({"instances": [{"b64": "!"}]})", "instances: sample 0: b64: this is not base64"},
      {R"({"instances": [[1, 2]], "signature_name": "x"})",
       "the only signature is serving_default"}};
  for (const auto& [body, why] : cases) EXPECT_EQ(v1(model, body)["error"], why) << body;
}

TEST(V1Task, TakesTextsAndWords) {
  const auto model = FakeModel::ofTexts();
  EXPECT_EQ(v1(*model, R"({"instances": ["Good, good!", [0, 1, 5, 2]]})")["predictions"],
            json::parse("[[0.5], [0.25]]"));
  EXPECT_EQ(
      v1(*model, R"({"instances": [[0, 1, 5, 10]]})")["error"],
      "instances: sample 0: 10 is not one of the 10 words that the model knows, counted from 0");
}

TEST(V2Task, TakesJsonAndBinaryTensors) {
  const FakeModel model;
  const auto reply = json::parse(
      v2(model,
         R"({"id": "a", "inputs": [{"name": "input", "shape": [2, 2], "datatype": "FP32", "data": [[1, 2], [3, 4]]}]})")
          .body);
  EXPECT_EQ(reply["model_version"], "7");
  EXPECT_EQ(reply["id"], "a");
  EXPECT_EQ(reply["outputs"][0]["data"], json::parse("[3.0, 7.0]"));
  EXPECT_EQ(reply["outputs"][0]["shape"], json::parse("[2, 1]"));
  const std::string head =
      R"({"inputs": [{"name": "input", "shape": [1, 2], "datatype": "INT16", "parameters": {"binary_data_size": 4}}],)"
      R"( "outputs": [{"name": "output", "parameters": {"binary_data": true}}]})";
  const HttpReply binary =
      v2(model, head + std::string("\x05\x00\x01\x01", 4), std::to_string(head.size()));
  ASSERT_EQ(binary.status, 200) << binary.body;
  ASSERT_EQ(binary.headers[0].first, "Inference-Header-Content-Length");
  float value = 0;
  std::memcpy(&value, binary.body.data() + std::stoul(binary.headers[0].second), sizeof value);
  EXPECT_EQ(value, 5 + 257);
}

TEST(V2Task, RefusesWhatDoesNotFit) {
  const FakeModel model;
  for (
      const char* body :
      {R"({"inputs": []})", R"({"inputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32"}]})",
       R"({"inputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1]}]})",
       R"({"inputs": [{"name": "a", "shape": [-1, 2], "datatype": "FP32", "data": [1, 2]}]})",
       R"({"inputs": [{"name": "a", "shape": [4611686018427387904, 4], "datatype": "FP32", "data": []}]})",
       R"({"inputs": [{"name": "a", "shape": [1, 2], "datatype": "COMPLEX", "data": [1, 2]}]})",
       R"({"inputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}]})",
       R"({"inputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}], "outputs": [{"name": "b"}]})"})
    EXPECT_EQ(v2(model, body).status, 400) << body;
  EXPECT_EQ(v2(model, "{}", "99").status, 400);
}

TEST(ExplainTask, WeighsEveryWord) {
  const auto model = FakeModel::ofTexts();
  const auto task = makeExplainTask({.body = R"({"text": "é good xyz"})"});
  const auto reply = json::parse(replyTo(*task, *model).body);
  // 0.25 is class 0: without "good" the probability of that grows.
  EXPECT_EQ(reply["prediction"], json::parse("[0.25]"));
  ASSERT_EQ(reply["words"].size(), 3u);
  EXPECT_EQ(
      reply["words"][1],
      json::parse(R"({"text": "good", "start": 2, "end": 6, "known": true, "weight": -0.25})"));
  EXPECT_EQ(reply["words"][2]["known"], false);
  EXPECT_EQ(reply["truncated"], false);
}

}  // namespace
}  // namespace dure::serve
