#include "train/parameters.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "train/shape.h"

namespace dure::train {
namespace {

constexpr std::int64_t kAlignment = 16;  // numbers, 64 bytes

at::Tensor viewOf(const at::Tensor& flat, std::int64_t offset, const Parameters::Spec& spec) {
  const at::Tensor part = flat.narrow(0, offset, elementsOf(spec.shape));
  if (!spec.channels_last) return part.view(spec.shape);
  const auto& s = spec.shape;
  return part.view({s[0], s[2], s[3], s[1]}).permute({0, 3, 1, 2});
}

const std::vector<std::pair<format::DType, at::ScalarType>>& types() {
  static const std::vector<std::pair<format::DType, at::ScalarType>> pairs{
      {format::DType::kBool, at::kBool}, {format::DType::kU8, at::kByte},
      {format::DType::kI8, at::kChar},   {format::DType::kI16, at::kShort},
      {format::DType::kI32, at::kInt},   {format::DType::kI64, at::kLong},
      {format::DType::kF16, at::kHalf},  {format::DType::kBF16, at::kBFloat16},
      {format::DType::kF32, at::kFloat}, {format::DType::kF64, at::kDouble}};
  return pairs;
}

}  // namespace

Parameters::Parameters(const std::vector<Spec>& specs) {
  std::int64_t totals[2] = {0, 0};  // of what is learned, and of what is frozen
  std::vector<std::int64_t> offsets;
  for (const Spec& spec : specs) {
    std::int64_t& total = totals[spec.frozen ? 1 : 0];
    offsets.push_back(total);
    total += (elementsOf(spec.shape) + kAlignment - 1) / kAlignment * kAlignment;
  }
  values_ = at::zeros({totals[0]});
  shared_ = at::zeros({totals[0] + kAlignment});
  grads_ = shared_.narrow(0, 0, totals[0]);
  const at::Tensor frozen = at::zeros({totals[1]});
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Spec& spec = specs[i];
    Parameter parameter{.name = spec.name,
                        .value = viewOf(spec.frozen ? frozen : values_, offsets[i], spec).detach(),
                        .offset = offsets[i],
                        .count = elementsOf(spec.shape)};
    std::vector<Parameter>& list = spec.frozen ? frozen_ : all_;
    places_.push_back({spec.frozen, list.size()});
    if (!spec.frozen) {
      parameter.grad = viewOf(grads_, offsets[i], spec);
      parameter.value.requires_grad_(true);
      parameter.value.mutable_grad() = parameter.grad;
    }
    list.push_back(std::move(parameter));
  }
}

std::int64_t Parameters::count() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : all_) total += parameter.count;
  return total;
}

format::Array toArray(const at::Tensor& tensor) {
  auto owner = std::make_shared<at::Tensor>(tensor.detach().cpu().contiguous());
  format::Array array;
  for (const auto& [ours, theirs] : types()) {
    if (theirs == owner->scalar_type()) array.dtype = ours;
  }
  array.shape = owner->sizes().vec();
  array.data = static_cast<const std::byte*>(owner->data_ptr());
  array.owner = std::move(owner);
  return array;
}

bool isArrayType(const at::Tensor& tensor) {
  return std::any_of(types().begin(), types().end(),
                     [&](const auto& pair) { return pair.second == tensor.scalar_type(); });
}

at::Tensor toTensor(const format::Array& array) {
  for (const auto& [ours, theirs] : types()) {
    if (ours != array.dtype) continue;
    at::Tensor tensor = at::empty(array.shape, at::dtype(theirs));
    std::memcpy(tensor.data_ptr(), array.data, array.bytes());
    return tensor;
  }
  // Unsigned numbers of more than a byte, which torch does not have.
  at::Tensor tensor = at::empty(array.shape, at::kLong);
  auto* out = tensor.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < array.elements(); ++i) {
    std::uint64_t number = 0;
    std::memcpy(&number, array.data + static_cast<std::size_t>(i) * format::sizeOf(array.dtype),
                format::sizeOf(array.dtype));
    out[i] = static_cast<std::int64_t>(number);
  }
  return tensor;
}

format::NamedArrays namedWeights(const Parameters& parameters) {
  format::NamedArrays named;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    named.emplace_back(parameters[i].name, toArray(parameters[i].value));
  }
  return named;
}

Status loadWeights(Parameters& parameters, const format::NamedArrays& weights) {
  std::map<std::string, const format::Array*> by_name;
  for (const auto& [name, array] : weights) by_name[name] = &array;
  at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = parameters[i];
    const auto found = by_name.find(parameter.name);
    if (found == by_name.end() && !parameter.grad.defined()) continue;
    if (found == by_name.end()) {
      std::vector<std::string> names;
      for (const auto& [name, array] : weights) names.push_back(name);
      return Error(Code::kInvalid, fmt::format("there is no weight {}; there are {}",
                                               parameter.name, fmt::join(names, ", ")));
    }
    const format::Array& array = *found->second;
    if (array.shape != parameter.value.sizes().vec()) {
      return Error(Code::kInvalid,
                   fmt::format("the weight {} has the shape [{}], and the model wants [{}]",
                               parameter.name, fmt::join(array.shape, ", "),
                               fmt::join(parameter.value.sizes().vec(), ", ")));
    }
    parameter.value.copy_(toTensor(array));
  }
  return {};
}

}  // namespace dure::train
