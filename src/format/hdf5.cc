#include "format/hdf5.h"

#include <algorithm>

#include <fmt/core.h>

namespace dure::format {
std::optional<DType> numberType(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  if (H5Tget_class(type) == H5T_FLOAT) {
    if (size == 2 && H5Tget_ebias(type) == 15) return DType::kF16;
    if (size == 4) return DType::kF32;
    if (size == 8) return DType::kF64;
    return std::nullopt;
  }
  if (H5Tget_class(type) != H5T_INTEGER) return std::nullopt;
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  if (size == 1) return is_signed ? DType::kI8 : DType::kU8;
  if (size == 2) return is_signed ? DType::kI16 : DType::kU16;
  if (size == 4) return is_signed ? DType::kI32 : DType::kU32;
  if (size == 8) return is_signed ? DType::kI64 : DType::kU64;
  return std::nullopt;
}

H5Id fileType(DType type) {
  const auto copy = [](hid_t id) { return H5Id(H5Tcopy(id), H5Tclose); };
  switch (type) {
    case DType::kU8:
      return copy(H5T_STD_U8LE);
    case DType::kI8:
      return copy(H5T_STD_I8LE);
    case DType::kU16:
      return copy(H5T_STD_U16LE);
    case DType::kI16:
      return copy(H5T_STD_I16LE);
    case DType::kU32:
      return copy(H5T_STD_U32LE);
    case DType::kI32:
      return copy(H5T_STD_I32LE);
    case DType::kU64:
      return copy(H5T_STD_U64LE);
    case DType::kI64:
      return copy(H5T_STD_I64LE);
    case DType::kF32:
      return copy(H5T_IEEE_F32LE);
    case DType::kF64:
      return copy(H5T_IEEE_F64LE);
    case DType::kF16: {
      // HDF5 has no half of its own; this is the one that h5py and numpy know.
      H5Id half = copy(H5T_IEEE_F32LE);
      H5Tset_fields(half.get(), 15, 10, 5, 0, 10);
      H5Tset_size(half.get(), 2);
      H5Tset_ebias(half.get(), 15);
      return half;
    }
    case DType::kBool:
    case DType::kBF16:
      break;
  }
  return {-1, H5Tclose};
}

namespace {

// How large a data set in a file of `limit` bytes can be; none if its bytes lie elsewhere.
std::optional<std::size_t> mostBytes(hid_t dataset, std::size_t limit) {
  const H5Id plan(H5Dget_create_plist(dataset), H5Pclose);
  if (!plan || H5Pget_external_count(plan.get()) != 0) return std::nullopt;
  switch (H5Pget_layout(plan.get())) {
    case H5D_COMPACT:
    case H5D_CONTIGUOUS:
      return limit;
    case H5D_CHUNKED: {
      // Packed weights are hardly smaller than plain ones; nor may a single chunk, which the
      // library holds in memory, be much larger than the file.
      const std::size_t most = limit * 16;
      std::vector<hsize_t> chunk(H5S_MAX_RANK, 1);
      const int rank = H5Pget_chunk(plan.get(), H5S_MAX_RANK, chunk.data());
      const H5Id type(H5Dget_type(dataset), H5Tclose);
      if (rank < 0 || !type) return std::nullopt;
      std::vector<std::int64_t> shape(chunk.begin(), chunk.begin() + rank);
      shape.push_back(static_cast<std::int64_t>(H5Tget_size(type.get())));
      const auto bytes = checkedBytes(DType::kU8, shape);
      if (!bytes || *bytes > most) return std::nullopt;
      return most;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::unique_lock<std::mutex> lockHdf5() {
  static std::mutex mutex;
  static bool ready = false;
  std::unique_lock<std::mutex> lock(mutex);
  if (!ready) {
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5PLset_loading_state(0);
    H5Lunregister(H5L_TYPE_EXTERNAL);
    ready = true;
  }
  return lock;
}

Error hdf5Error(const std::string& what) {
  std::string text;
  // The innermost cause comes first, and is the one that says something.
  const auto keep_first = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    *static_cast<std::string*>(out) = error->desc != nullptr ? error->desc : "";
    return 1;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return Error(Code::kInvalid, what + ": " + (text.empty() ? "HDF5 gives no reason" : text));
}

Result<Array> readDataset(hid_t object, const std::string& path, std::size_t limit) {
  const H5Id dataset(H5Dopen2(object, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset) return hdf5Error(path);
  const H5Id type(H5Dget_type(dataset.get()), H5Tclose);
  const H5Id space(H5Dget_space(dataset.get()), H5Sclose);
  if (!type || !space) return hdf5Error(path);
  const auto number = numberType(type.get());
  if (!number) return Error(Code::kInvalid, path + ": holds no numbers that are read");
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if ((kind != H5S_SIMPLE && kind != H5S_SCALAR) || rank < 0) {
    return Error(Code::kInvalid, path + ": is empty");
  }
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  std::vector<std::int64_t> shape(sizes.begin(), sizes.end());
  const auto bytes = checkedBytes(*number, shape);
  const auto most = mostBytes(dataset.get(), limit);
  if (!bytes || !most || *bytes > *most) {
    return Error(Code::kInvalid,
                 fmt::format("{}: says it has {} bytes, which a file of {} cannot hold", path,
                             bytes ? std::to_string(*bytes) : "too many", limit));
  }
  Array array = makeArray(*number, std::move(shape));
  const H5Id memory_type = fileType(*number);
  if (*bytes > 0 && H5Dread(dataset.get(), memory_type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                            writableData(array)) < 0) {
    return hdf5Error(path);
  }
  return array;
}

Status writeDataset(hid_t object, const std::string& path, const Array& array) {
  const H5Id type = fileType(array.dtype);
  if (!type) {
    return Error(Code::kInvalid,
                 fmt::format("{}: HDF5 has no {} numbers", path, dtypeName(array.dtype)));
  }
  const std::vector<hsize_t> sizes(array.shape.begin(), array.shape.end());
  const H5Id space(sizes.empty()
                       ? H5Screate(H5S_SCALAR)
                       : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                   H5Sclose);
  const H5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  // Without times the same weights make the same file.
  const H5Id plan(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(plan.get(), false);
  const H5Id dataset(H5Dcreate2(object, path.c_str(), type.get(), space.get(), links.get(),
                                plan.get(), H5P_DEFAULT),
                     H5Dclose);
  if (!dataset) return hdf5Error(path);
  if (array.bytes() > 0 &&
      H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.data) < 0) {
    return hdf5Error(path);
  }
  return {};
}

}  // namespace dure::format
