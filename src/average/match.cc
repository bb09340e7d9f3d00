#include "average/match.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace dure::average {
namespace {

using format::TensorPlace;
using nlohmann::json;

// What a model is besides its weights: two that differ in one of these are two models.
constexpr std::array<const char*, 6> kSameTexts = {"class_names",  "classes", "input_scale",
                                                   "input_offset", "input",   "input_shape"};
// Where the architecture stands, as Keras describes it.
constexpr std::array<const char*, 2> kArchitectures = {"model_config", "architecture"};
// Of a layer: what says nothing about what it computes.
constexpr std::array<const char*, 6> kIdle = {
    "name", "trainable", "build_input_shape", "build_config", "registered_name", "seed"};

// The layers of a Keras configuration; nothing if it is none.
std::optional<json> layersOf(const std::string& text) {
  const json config = json::parse(text, nullptr, false);
  if (!config.is_object() || !config.contains("config")) return std::nullopt;
  const json& inner = config["config"];
  const json& layers = inner.is_object() && inner.contains("layers") ? inner["layers"] : inner;
  if (!layers.is_array()) return std::nullopt;
  return layers;
}

std::string layerName(const json& layer) {
  if (layer.is_object() && layer.contains("config") && layer["config"].is_object() &&
      layer["config"].contains("name") && layer["config"]["name"].is_string()) {
    return layer["config"]["name"].get<std::string>();
  }
  return "a layer";
}

// What two layers differ in: "activation is "relu", but …"; empty if in nothing.
std::string layerDifference(const json& a, const json& b, const std::string& first) {
  const auto part = [](const json& layer, const char* key) {
    return layer.is_object() && layer.contains(key) ? layer[key] : json();
  };
  if (part(a, "class_name") != part(b, "class_name")) {
    return fmt::format("is a {}, but in {} it is a {}", part(b, "class_name").dump(), first,
                       part(a, "class_name").dump());
  }
  const json ours = part(a, "config");
  const json theirs = part(b, "config");
  if (!ours.is_object() || !theirs.is_object()) return "";
  for (const auto& [key, value] : ours.items()) {
    const bool idle = std::find(kIdle.begin(), kIdle.end(), key) != kIdle.end();
    if (idle || !theirs.contains(key) || theirs[key] == value) continue;
    return fmt::format("{} is {}, but in {} it is {}", key, theirs[key].dump(), first,
                       value.dump());
  }
  return "";
}

Status matchArchitectures(const NamedModel& first, const NamedModel& other) {
  for (const char* name : kArchitectures) {
    const auto a = first.content.texts.find(name);
    const auto b = other.content.texts.find(name);
    if (a == first.content.texts.end() || b == other.content.texts.end()) continue;
    const auto ours = layersOf(a->second);
    const auto theirs = layersOf(b->second);
    if (!ours || !theirs) continue;
    if (ours->size() != theirs->size()) {
      return Error(Code::kInvalid, fmt::format("{}: has {} layers, but {} has {}", other.path,
                                               theirs->size(), first.path, ours->size()));
    }
    for (std::size_t i = 0; i < ours->size(); ++i) {
      const std::string difference = layerDifference((*ours)[i], (*theirs)[i], first.path);
      if (difference.empty()) continue;
      return Error(Code::kInvalid, fmt::format("{}: layer {}: {}", other.path,
                                               layerName((*theirs)[i]), difference));
    }
  }
  return {};
}

Status matchTexts(const NamedModel& first, const NamedModel& other) {
  for (const char* name : kSameTexts) {
    const auto a = first.content.texts.find(name);
    const auto b = other.content.texts.find(name);
    if (a == first.content.texts.end() || b == other.content.texts.end()) continue;
    if (a->second == b->second) continue;
    return Error(Code::kInvalid, fmt::format("{}: {} differs from that of {}: they were trained on "
                                             "different data",
                                             other.path, name, first.path));
  }
  return {};
}

bool isCounter(const std::string& leaf) {
  static constexpr std::array<const char*, 8> kCounters = {
      "num_batches_tracked", "count",     "counter", "step", "steps", "iter",
      "iteration",           "iterations"};
  return std::find(kCounters.begin(), kCounters.end(), leaf) != kCounters.end();
}

// The name of the means that belong to variances of this name; empty if it is not such.
std::string meansOf(const std::string& leaf) {
  if (leaf == "moving_variance") return "moving_mean";
  if (leaf == "running_var") return "running_mean";
  if (leaf == "variance") return "mean";
  return "";
}

}  // namespace

std::string shapeText(const std::vector<std::int64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Status match(const NamedModel& first, NamedModel& other) {
  std::map<std::string, TensorPlace*> theirs;
  for (TensorPlace& tensor : other.content.tensors) theirs[tensor.key] = &tensor;
  std::vector<TensorPlace> ordered;
  for (const TensorPlace& ours : first.content.tensors) {
    const auto found = theirs.find(ours.key);
    if (found == theirs.end()) {
      return Error(Code::kInvalid, fmt::format("{}: has no {}, which is {} in {}", other.path,
                                               ours.name, shapeText(ours.shape), first.path));
    }
    const TensorPlace& tensor = *found->second;
    if (tensor.shape != ours.shape) {
      return Error(Code::kInvalid, fmt::format("{}: {} has the shape {}, but in {} it has {}",
                                               other.path, ours.name, shapeText(tensor.shape),
                                               first.path, shapeText(ours.shape)));
    }
    if (tensor.dtype != ours.dtype) {
      return Error(
          Code::kInvalid,
          fmt::format("{}: {} is of type {}, but in {} of type {}", other.path, ours.name,
                      format::dtypeName(tensor.dtype), first.path, format::dtypeName(ours.dtype)));
    }
    if (tensor.strides != ours.strides) {
      return Error(Code::kInvalid,
                   fmt::format("{}: {} lies in another order of dimensions than in {}", other.path,
                               ours.name, first.path));
    }
    ordered.push_back(std::move(*found->second));
    theirs.erase(found);
  }
  if (!theirs.empty()) {
    const TensorPlace& more = *theirs.begin()->second;
    return Error(Code::kInvalid, fmt::format("{}: has {}, {}, which {} does not have", other.path,
                                             more.name, shapeText(more.shape), first.path));
  }
  other.content.tensors = std::move(ordered);
  if (auto same = matchArchitectures(first, other); !same) return same;
  return matchTexts(first, other);
}

std::vector<TensorPlan> planTensors(const std::vector<TensorPlace>& tensors) {
  std::vector<TensorPlan> plans(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorPlace& tensor = tensors[i];
    if (!format::isFloat(tensor.dtype)) {
      plans[i].treatment = isCounter(tensor.leaf)                          ? Treatment::kCounter
                           : tensor.leaf.find("seed") != std::string::npos ? Treatment::kState
                                                                           : Treatment::kEqual;
      continue;
    }
    const std::string means = meansOf(tensor.leaf);
    if (means.empty()) continue;
    for (std::size_t mean = 0; mean < tensors.size(); ++mean) {
      const TensorPlace& other = tensors[mean];
      if (other.group != tensor.group || other.leaf != means || other.shape != tensor.shape ||
          other.dtype != tensor.dtype || other.packed != tensor.packed) {
        continue;
      }
      plans[i] = {.treatment = Treatment::kVariance, .mean = mean};
    }
  }
  return plans;
}

}  // namespace dure::average
