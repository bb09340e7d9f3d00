// Any body of a request for predictions is refused with a sentence, or becomes samples that the
// model can take: rows of its shape, and words that it knows. The first byte says which model and
// protocol.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "serve/request_task.h"

namespace {

using namespace dure::serve;

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

ModelInfo infoOf(int kind) {
  ModelInfo info;
  info.shape = {4};
  if (kind == 1) {
    info.kind = InputKind::kText;
    info.words = true;
    info.vocabulary = 8;
    info.index = WordIndex("\n\n\n\ngood\nbad\nfilm\ndon't", 8);
  } else if (kind == 2) {
    info.kind = InputKind::kImage;
    info.shape = {2, 2, 1};
  } else if (kind == 3) {
    info.any_shape = true;
    info.shape.clear();
  }
  return info;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const ModelInfo info = infoOf(data[0] & 3);
  HttpRequest request;
  request.body.assign(reinterpret_cast<const char*>(data) + 2, size - 2);
  // Where the JSON ends and binary tensors begin.
  if ((data[0] & 128) != 0)
    request.headers.emplace_back("inference-header-content-length", std::to_string(data[1]));
  const int protocol = data[0] >> 2 & 3;
  const auto task = protocol == 0   ? makeV1Task(std::move(request))
                    : protocol == 1 ? makeV2Task(std::move(request), {"m", 1})
                                    : makeExplainTask(std::move(request));
  Samples samples;
  const auto decoded = task->decode(info, samples);
  if (!decoded) {
    require(!decoded.error().message().empty(), "a refusal has a reason");
    return 0;
  }
  std::size_t each = 1;
  for (const std::int64_t length : samples.shape) each *= static_cast<std::size_t>(length);
  const auto rows = static_cast<std::size_t>(samples.rows);
  require(rows > 0, "a request that is taken has samples");
  require((info.words ? samples.words.size() : samples.numbers.size()) == rows * each,
          "samples are of the shape that they say");
  for (const std::int64_t word : samples.words) require(word >= 0 && word < 8, "words are known");
  const Predictions predictions{
      .rows = samples.rows, .shape = {2}, .values = std::vector<float>(rows * 2, 0.5F)};
  const HttpReply reply = task->encode(info, predictions);
  if (reply.type == "application/json")
    require(nlohmann::json::accept(reply.body), "a reply is JSON");
  return 0;
}
