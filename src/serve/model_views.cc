#include "serve/model_views.h"

#include <charconv>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "serve/request_task.h"

namespace dure::serve {
namespace {

using nlohmann::ordered_json;

std::string textOf(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

const char* kindName(InputKind kind) {
  return kind == InputKind::kText ? "text" : kind == InputKind::kImage ? "image" : "numbers";
}

const char* stateName(SlotState state) {
  return state == SlotState::kReady ? "ready" : state == SlotState::kFailed ? "failed" : "waiting";
}

// As a number where it is one.
ordered_json factOf(const std::string& text) {
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, whole);
      error == std::errc() && stop == end)
    return whole;
  double number = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, number);
      error == std::errc() && stop == end)
    return number;
  return text;
}

ordered_json trainedOf(const LoadedModel& loaded) {
  const auto& facts = loaded.model->info().trained;
  if (facts.empty()) return nullptr;
  ordered_json made = ordered_json::object();
  for (const auto& [name, text] : facts) {
    made[name] = name == "data" || name == "sync" ? ordered_json(text) : factOf(text);
  }
  made["date"] = loaded.date;
  return made;
}

ordered_json batchShape(const std::vector<std::int64_t>& shape) {
  ordered_json made = ordered_json::array({-1});
  for (const std::int64_t size : shape) made.push_back(size);
  return made;
}

ordered_json v1Tensor(const char* name, const char* type, const std::vector<std::int64_t>& shape,
                      bool unknown) {
  ordered_json dims = ordered_json::array({{{"size", "-1"}, {"name", ""}}});
  for (const std::int64_t size : shape)
    dims.push_back({{"size", std::to_string(size)}, {"name", ""}});
  if (unknown) dims = ordered_json::array();
  return {{"dtype", type},
          {"tensor_shape", {{"dim", dims}, {"unknown_rank", unknown}}},
          {"name", std::string("serving_default_") + name + ":0"}};
}

std::vector<std::int64_t> outputShape(const ModelInfo& info) {
  return info.outputs > 0 ? std::vector<std::int64_t>{info.outputs} : std::vector<std::int64_t>{-1};
}

}  // namespace

std::string apiModelsText(const std::vector<SlotView>& models) {
  ordered_json list = ordered_json::array();
  for (const SlotView& slot : models) {
    ordered_json made = {{"name", slot.name},
                         {"file", std::filesystem::path(slot.path).filename().string()},
                         {"state", stateName(slot.state)},
                         {"why", slot.why}};
    if (slot.current != nullptr) {
      const ModelInfo& info = slot.current->model->info();
      made["version"] = slot.current->version;
      made["loaded"] = formatTime(slot.current->loaded);
      made["kind"] = kindName(info.kind);
      made["input"] = {{"shape", info.shape}, {"dtype", info.dtype}};
      made["vocabulary"] = info.index.empty() ? 0 : info.vocabulary;
      made["outputs"] = info.outputs;
      made["activation"] = info.activation;
      made["class_names"] = info.class_names;
      made["parameters"] = info.parameters;
      made["trained"] = trainedOf(*slot.current);
    } else {
      made["version"] = 0;
    }
    list.push_back(std::move(made));
  }
  return textOf({{"models", std::move(list)}});
}

std::string v1StatusText(const SlotView& model) {
  const bool there = model.current != nullptr;
  const char* const state = there                               ? "AVAILABLE"
                            : model.state == SlotState::kFailed ? "END"
                                                                : "START";
  return textOf(
      {{"model_version_status",
        ordered_json::array({{{"version", std::to_string(there ? model.current->version : 1)},
                              {"state", state},
                              {"status",
                               {{"error_code", there ? "OK" : "UNAVAILABLE"},
                                {"error_message", there ? "" : model.why}}}}})}});
}

std::string v1MetadataText(const LoadedModel& model) {
  const ModelInfo& info = model.model->info();
  const ordered_json signature = {
      {"inputs",
       {{kInputName,
         v1Tensor(kInputName, info.words ? "DT_INT32" : "DT_FLOAT", info.shape, info.any_shape)}}},
      {"outputs",
       {{kOutputName, v1Tensor(kOutputName, "DT_FLOAT", outputShape(info), info.outputs == 0)}}},
      {"method_name", "tensorflow/serving/predict"}};
  return textOf(
      {{"model_spec",
        {{"name", model.name}, {"signature_name", ""}, {"version", std::to_string(model.version)}}},
       {"metadata", {{"signature_def", {{"signature_def", {{"serving_default", signature}}}}}}}});
}

std::string v2MetadataText(const LoadedModel& model) {
  const ModelInfo& info = model.model->info();
  return textOf({{"name", model.name},
                 {"versions", {std::to_string(model.version)}},
                 {"platform", "dure"},
                 {"inputs", ordered_json::array({{{"name", kInputName},
                                                  {"datatype", info.words ? "INT64" : "FP32"},
                                                  {"shape", batchShape(info.shape)}}})},
                 {"outputs", ordered_json::array({{{"name", kOutputName},
                                                   {"datatype", "FP32"},
                                                   {"shape", batchShape(outputShape(info))}}})}});
}

}  // namespace dure::serve
