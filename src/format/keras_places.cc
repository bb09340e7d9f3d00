// Where the weights of a Keras file lie. HDF5's library says it, in a process of its own; the
// numbers are then read and written without the library.

#include <array>

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "format/hdf5.h"
#include "format/json_text.h"
#include "format/safetensors_parse.h"
#include "format/sandbox.h"
#include "format/tensor_places.h"

namespace dure::format {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTensors = 1'000'000;
constexpr const char* kWeights = "model_weights";
constexpr const char* kOptimizer = "optimizer_weights";
constexpr std::array<const char*, 8> kTexts = {"model_config", "class_names", "data", "samples",
                                               "epochs",       "workers",     "sync", "models"};

// The place of a data set as a line of JSON; an offset below 0: it is not in one piece.
struct Finder {
  std::string prefix;  // of the keys
  json found = json::array();
  std::string failed;
};

json describePlace(hid_t group, const char* path, const std::string& key) {
  const H5Id object(H5Oopen(group, path, H5P_DEFAULT), H5Oclose);
  if (!object || H5Iget_type(object.get()) != H5I_DATASET) return nullptr;
  const H5Id type(H5Dget_type(object.get()), H5Tclose);
  const H5Id space(H5Dget_space(object.get()), H5Sclose);
  const H5Id plan(H5Dget_create_plist(object.get()), H5Pclose);
  if (!type || !space || !plan) return nullptr;
  const auto number = numberType(type.get());
  const int rank = H5Sget_simple_extent_ndims(space.get());
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (!number || rank < 0 || (kind != H5S_SIMPLE && kind != H5S_SCALAR)) return nullptr;
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  const H5Id ours = fileType(*number);
  const H5Id turned(H5Tcopy(ours.get()), H5Tclose);
  H5Tset_order(turned.get(), H5T_ORDER_BE);
  const bool swapped = H5Tget_size(type.get()) > 1 && H5Tequal(type.get(), turned.get()) > 0;
  const bool usual = swapped || H5Tequal(type.get(), ours.get()) > 0;
  const haddr_t offset =
      H5Pget_layout(plan.get()) == H5D_CONTIGUOUS && usual && H5Pget_external_count(plan.get()) == 0
          ? H5Dget_offset(object.get())
          : HADDR_UNDEF;
  return {key, static_cast<int>(*number), sizes,
          offset == HADDR_UNDEF ? std::int64_t{-1} : static_cast<std::int64_t>(offset), swapped};
}

herr_t visitLink(hid_t group, const char* path, const H5L_info_t* info, void* out) {
  auto& finder = *static_cast<Finder*>(out);
  if (info->type != H5L_TYPE_HARD) return 0;
  if (finder.prefix.empty() && std::string_view(path).starts_with(kOptimizer)) return 0;
  json place = describePlace(group, path, finder.prefix + path);
  if (place.is_null()) return 0;
  finder.found.push_back(std::move(place));
  return finder.found.size() > kMostTensors ? -1 : 0;
}

// In the process of its own.
Status writePlaces(const FileBytes& bytes, int fd) {
  const H5Id file = openHdf5(bytes.bytes);
  if (!file) return hdf5Error(bytes.name);
  json texts = json::object();
  for (const char* name : kTexts) {
    if (!hasAttribute(file.get(), name)) continue;
    const auto read = readTexts(file.get(), name, bytes.size());
    if (read && read->size() == 1) texts[name] = read->front();
  }
  const bool whole = H5Lexists(file.get(), kWeights, H5P_DEFAULT) > 0;
  Finder finder{.prefix = whole ? std::string(kWeights) + "/" : ""};
  const H5Id group(H5Gopen2(file.get(), whole ? kWeights : "/", H5P_DEFAULT), H5Gclose);
  if (!group) return hdf5Error(bytes.name);
  if (H5Lvisit(group.get(), H5_INDEX_NAME, H5_ITER_INC, visitLink, &finder) < 0) {
    return hdf5Error(bytes.name);
  }
  return writeAll(fd, json{{"places", finder.found}, {"texts", texts}}.dump(
                          -1, ' ', false, json::error_handler_t::replace));
}

// "dense/dense/kernel:0" is kernel of dense.
void nameTensor(TensorPlace& tensor) {
  std::string path = tensor.key;
  if (path.starts_with(std::string(kWeights) + "/"))
    path.erase(0, std::string(kWeights).size() + 1);
  const std::size_t colon = path.rfind(':');
  if (colon != std::string::npos && colon + 2 == path.size()) path.resize(colon);
  const std::string layer = path.substr(0, path.find('/'));
  if (path.starts_with(layer + "/" + layer + "/")) path.erase(0, layer.size() + 1);
  tensor.name = path;
  const std::size_t slash = path.rfind('/');
  tensor.group = slash == std::string::npos ? "" : path.substr(0, slash);
  tensor.leaf = slash == std::string::npos ? path : path.substr(slash + 1);
}

// The process at the other end may have been led astray by the file: nothing it says is trusted.
bool readPlace(const json& line, TensorPlace& tensor) {
  if (!line.is_array() || line.size() != 5 || !line[0].is_string() ||
      !line[1].is_number_integer() || !line[2].is_array() || !line[3].is_number_integer() ||
      !line[4].is_boolean()) {
    return false;
  }
  tensor.key = line[0].get<std::string>();
  const auto type = line[1].get<std::int64_t>();
  if (type < 0 || type > static_cast<std::int64_t>(DType::kF64)) return false;
  tensor.dtype = static_cast<DType>(type);
  for (const json& size : line[2]) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > INT64_MAX) return false;
    tensor.shape.push_back(size.get<std::int64_t>());
  }
  const auto offset = line[3].get<std::int64_t>();
  tensor.packed = offset < 0;
  tensor.offset = tensor.packed ? 0 : static_cast<std::uint64_t>(offset);
  tensor.swapped = line[4].get<bool>() && !tensor.packed;
  nameTensor(tensor);
  return true;
}

}  // namespace

Result<ModelTensors> findKerasTensors(const FileBytes& file) {
  if (!file.text().starts_with("\x89HDF\r\n\x1a\n")) {
    return Error(Code::kInvalid, file.name + ": is not an HDF5 file");
  }
  const auto lock = lockHdf5();
  const auto said = makeInSandbox(file.name, [&](int fd) { return writePlaces(file, fd); });
  if (!said) return said.error();
  const auto places = parseJson(file.name, said->text());
  if (!places || !places->is_object() || !places->contains("places") ||
      !(*places)["places"].is_array() || !(*places)["texts"].is_object()) {
    return Error(Code::kInvalid, file.name + ": is damaged");
  }
  ModelTensors found;
  for (const json& line : (*places)["places"]) {
    TensorPlace tensor;
    if (!readPlace(line, tensor)) return Error(Code::kInvalid, file.name + ": is damaged");
    found.tensors.push_back(std::move(tensor));
  }
  for (const auto& [name, text] : (*places)["texts"].items()) {
    if (text.is_string()) found.texts[name] = text.get<std::string>();
  }
  if (auto sound = checkTensors(file, found); !sound) return std::move(sound).error();
  return found;
}

Result<Array> readPacked(const FileBytes& file, const TensorPlace& place) {
  const auto lock = lockHdf5();
  const auto handed = makeInSandbox(file.name, [&](int fd) -> Status {
    const H5Id opened = openHdf5(file.bytes);
    if (!opened) return hdf5Error(file.name);
    auto array = readDataset(opened.get(), place.key, file.size());
    if (!array) return std::move(array).error().during(file.name);
    return writeSafetensorsTo(fd, {.arrays = {{"0", *std::move(array)}}, .metadata = {}});
  });
  if (!handed) return handed.error();
  const auto content = parseSafetensors(*handed);
  if (!content) return content.error();
  const Array* const array = content->find("0");
  if (array == nullptr || array->dtype != place.dtype || array->shape != place.shape) {
    return Error(Code::kInvalid, file.name + ": " + place.name + " is damaged");
  }
  return *array;
}

Status rewritePacked(const std::string& path, const NamedArrays& numbers) {
  const auto lock = lockHdf5();
  const auto made = makeInSandbox(path, [&](int) -> Status {
    H5Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    if (!file) return hdf5Error(path);
    for (const auto& [key, array] : numbers) {
      H5Id dataset(H5Dopen2(file.get(), key.c_str(), H5P_DEFAULT), H5Dclose);
      const H5Id type = fileType(array.dtype);
      if (!dataset ||
          H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.data) < 0) {
        return hdf5Error(path + ": " + key);
      }
      if (dataset.reset() < 0) return hdf5Error(path + ": " + key);
    }
    return file.reset() < 0 ? Status(hdf5Error(path)) : Status();
  });
  if (!made) return Error(Code::kIo, "write " + made.error().message());
  return {};
}

}  // namespace dure::format
