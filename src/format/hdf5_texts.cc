#include <algorithm>

#include "format/hdf5.h"

namespace dure::format {
namespace {

// One member keeps everything that a list of texts takes within the attribute that lies in the
// file; lists of variable length may all point to the same text, so there are fewer of them.
constexpr hsize_t kMaxTexts = 1'000'000;
constexpr hsize_t kMaxVariableTexts = 1024;

Result<std::vector<std::string>> readVariable(hid_t attribute, hid_t type, hid_t space,
                                              std::size_t count) {
  const H5Id memory_type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(memory_type.get(), H5T_VARIABLE);
  H5Tset_cset(memory_type.get(), H5Tget_cset(type));
  std::vector<char*> pointers(count, nullptr);
  if (H5Aread(attribute, memory_type.get(), pointers.data()) < 0)
    return hdf5Error("cannot be read");
  std::vector<std::string> texts;
  texts.reserve(count);
  for (const char* text : pointers) texts.emplace_back(text != nullptr ? text : "");
  H5Dvlen_reclaim(memory_type.get(), space, H5P_DEFAULT, pointers.data());
  return texts;
}

Result<std::vector<std::string>> readFixed(hid_t attribute, hid_t type, std::size_t count) {
  const std::size_t size = H5Tget_size(type);
  std::vector<char> bytes(size * count);
  if (H5Aread(attribute, type, bytes.data()) < 0) return hdf5Error("cannot be read");
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(i * size);
    const auto end = begin + static_cast<std::ptrdiff_t>(size);
    texts.emplace_back(begin, std::find(begin, end, '\0'));
  }
  return texts;
}

}  // namespace

bool hasAttribute(hid_t object, const std::string& name) {
  return H5Aexists(object, name.c_str()) > 0;
}

Result<std::vector<std::string>> readTexts(hid_t object, const std::string& name,
                                           std::size_t limit) {
  const std::string what = "attribute " + name;
  const H5Id attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute) return hdf5Error(what);
  const H5Id type(H5Aget_type(attribute.get()), H5Tclose);
  const H5Id space(H5Aget_space(attribute.get()), H5Sclose);
  if (!type || !space) return hdf5Error(what);
  if (H5Sget_simple_extent_ndims(space.get()) > 1) {
    return Error(Code::kInvalid, what + ": is not a list");
  }
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  if (points < 0 || static_cast<hsize_t>(points) > kMaxTexts) return hdf5Error(what);
  const auto count = static_cast<std::size_t>(points);
  if (count == 0) return std::vector<std::string>();
  if (H5Tget_class(type.get()) != H5T_STRING) return Error(Code::kInvalid, what + ": is not text");
  const bool variable = H5Tis_variable_str(type.get()) > 0;
  if (variable ? count > kMaxVariableTexts : count * H5Tget_size(type.get()) > limit) {
    return Error(Code::kInvalid, what + ": is too large for the file");
  }
  auto texts = variable ? readVariable(attribute.get(), type.get(), space.get(), count)
                        : readFixed(attribute.get(), type.get(), count);
  if (!texts) return std::move(texts).error().during(what);
  return texts;
}

Status writeText(hid_t object, const std::string& name, const std::string& text) {
  const H5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  const H5Id space(H5Screate(H5S_SCALAR), H5Sclose);
  const H5Id attribute(
      H5Acreate2(object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  const char* const pointer = text.c_str();
  if (!attribute || H5Awrite(attribute.get(), type.get(), &pointer) < 0) return hdf5Error(name);
  return {};
}

Status writeTexts(hid_t object, const std::string& name, const std::vector<std::string>& texts) {
  std::size_t size = 1;
  for (const std::string& text : texts) size = std::max(size, text.size());
  std::string bytes(size * texts.size(), '\0');
  for (std::size_t i = 0; i < texts.size(); ++i) bytes.replace(i * size, texts[i].size(), texts[i]);
  const H5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), size);
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  const hsize_t count = texts.size();
  const H5Id space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  const H5Id attribute(
      H5Acreate2(object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  if (!attribute || H5Awrite(attribute.get(), type.get(), bytes.data()) < 0) return hdf5Error(name);
  return {};
}

}  // namespace dure::format
