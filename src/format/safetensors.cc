#include "format/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "format/json_text.h"
#include "format/new_file.h"
#include "format/safetensors_parse.h"

namespace dure::format {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMaxHeaderText = 100'000'000;  // as the format's own library has it
constexpr std::size_t kAlign = 64;
constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  DType type;
  const char* name;
};
constexpr std::array<TypeName, 13> kTypes = {{{DType::kBool, "BOOL"},
                                              {DType::kU8, "U8"},
                                              {DType::kI8, "I8"},
                                              {DType::kU16, "U16"},
                                              {DType::kI16, "I16"},
                                              {DType::kU32, "U32"},
                                              {DType::kI32, "I32"},
                                              {DType::kU64, "U64"},
                                              {DType::kI64, "I64"},
                                              {DType::kF16, "F16"},
                                              {DType::kBF16, "BF16"},
                                              {DType::kF32, "F32"},
                                              {DType::kF64, "F64"}}};

std::optional<DType> typeOf(const std::string& name) {
  for (const TypeName& entry : kTypes) {
    if (name == entry.name) return entry.type;
  }
  return std::nullopt;
}

std::string nameOf(DType type) { return kTypes.at(static_cast<std::size_t>(type)).name; }

struct Entry {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A size or offset; none if it is negative, a fraction, or beyond 2^62.
std::optional<std::int64_t> wholeNumber(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > (std::uint64_t{1} << 62u)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Result<Entry> readEntry(const std::string& name, const json& value) {
  const auto wrong = [&](const std::string& what) {
    return Error(Code::kInvalid, fmt::format("array '{}': {}", name, what));
  };
  if (!value.is_object()) return wrong("is not described by an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) return wrong(fmt::format("has no {}", key));
  }
  Entry entry{.name = name};
  const auto type = typeOf(textAt(value, "dtype"));
  if (!type)
    return wrong(fmt::format("numbers of the type {} are not read", value["dtype"].dump()));
  entry.dtype = *type;
  if (!value["shape"].is_array()) return wrong("its shape is not a list");
  for (const json& size : value["shape"]) {
    const auto number = wholeNumber(size);
    if (!number) return wrong("its shape is not a list of whole numbers");
    entry.shape.push_back(*number);
  }
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) return wrong("data_offsets is not a pair");
  const auto begin = wholeNumber(offsets[0]);
  const auto end = wholeNumber(offsets[1]);
  if (!begin || !end || *begin > *end) return wrong("data_offsets is not a range");
  entry.begin = static_cast<std::size_t>(*begin);
  entry.end = static_cast<std::size_t>(*end);
  const auto bytes = checkedBytes(entry.dtype, entry.shape);
  if (!bytes) return wrong("its shape is too large");
  if (*bytes != entry.end - entry.begin) {
    return wrong(fmt::format("its shape needs {} bytes but data_offsets has {}", *bytes,
                             entry.end - entry.begin));
  }
  return entry;
}

Result<std::map<std::string, std::string>> readMetadata(const json& value) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) return Error(Code::kInvalid, "__metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return Error(Code::kInvalid, "__metadata__ holds more than texts");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// A view, or a copy where the numbers do not lie at multiples of their size.
Array arrayAt(const FileBytes& file, PlacedArray& placed) {
  const std::byte* const data = file.bytes.data() + placed.offset;
  if (reinterpret_cast<std::uintptr_t>(data) % sizeOf(placed.dtype) == 0) {
    return {
        .dtype = placed.dtype, .shape = std::move(placed.shape), .data = data, .owner = file.owner};
  }
  Array copy = makeArray(placed.dtype, std::move(placed.shape));
  if (copy.bytes() > 0) std::memcpy(writableData(copy), data, copy.bytes());
  return copy;
}

// One array after the other, from the first byte of the data to the last.
Status checkPlaces(const FileBytes& file, std::size_t data_offset,
                   const std::vector<Entry>& entries) {
  std::size_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      return damaged(
          file, data_offset + expected,
          fmt::format("array '{}' begins at {} of the data, {} the one before it", entry.name,
                      entry.begin, entry.begin < expected ? "inside" : "with a hole after"));
    }
    expected = entry.end;
  }
  if (expected != file.size() - data_offset) {
    return damaged(file, data_offset,
                   fmt::format("the header says {} bytes but the file has {}", expected,
                               file.size() - data_offset));
  }
  return {};
}

// The arrays in the order they are written: the widest numbers first, so that each array begins at
// a multiple of its numbers' size although no holes are allowed.
std::vector<std::size_t> writingOrder(const NamedArrays& arrays) {
  std::vector<std::size_t> order(arrays.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return sizeOf(arrays[a].second.dtype) > sizeOf(arrays[b].second.dtype);
  });
  return order;
}

// The whole of the file before the data, padded so that the data begins at a multiple of kAlign.
Result<std::string> headerBytes(const ordered_json& header) {
  std::string text;
  try {
    text = header.dump();
  } catch (const ordered_json::exception&) {
    return Error(Code::kInvalid, "a name or a text of the metadata is not UTF-8");
  }
  const std::size_t used = sizeof(std::uint64_t) + text.size();
  text.append((kAlign - used % kAlign) % kAlign, ' ');
  if (text.size() > kMaxHeaderText) return Error(Code::kInvalid, "there are too many arrays");
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

Result<std::string> makeHeader(const Safetensors& content, const std::vector<std::size_t>& order) {
  ordered_json header = ordered_json::object();
  if (!content.metadata.empty()) header[kMetadata] = content.metadata;
  std::size_t offset = 0;
  for (const std::size_t index : order) {
    const auto& [name, array] = content.arrays[index];
    if (name == kMetadata || header.contains(name)) {
      return Error(Code::kInvalid, fmt::format("two arrays are named '{}'", name));
    }
    const std::size_t end = offset + array.bytes();
    header[name] = {
        {"dtype", nameOf(array.dtype)}, {"shape", array.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  return headerBytes(header);
}

template <typename Write>
Status writeParts(const Safetensors& content, const std::vector<std::size_t>& order,
                  const std::string& header, Write write) {
  if (auto wrote = write(header); !wrote) return wrote;
  for (const std::size_t index : order) {
    const Array& array = content.arrays[index].second;
    auto wrote = write({reinterpret_cast<const char*>(array.data), array.bytes()});
    if (!wrote) return wrote;
  }
  return {};
}

}  // namespace

const Array* Safetensors::find(const std::string& name) const {
  for (const auto& [key, array] : arrays) {
    if (key == name) return &array;
  }
  return nullptr;
}

Result<PlacedArrays> placeSafetensors(const FileBytes& file) {
  Cursor cursor(file);
  const auto length = cursor.little<std::uint64_t>("the header's size");
  if (!length) return length.error();
  if (*length > kMaxHeaderText) {
    return damaged(
        file, 0,
        fmt::format("the header says it has {} bytes; the limit is {}", *length, kMaxHeaderText));
  }
  const auto bytes = cursor.take(static_cast<std::size_t>(*length), "the header");
  if (!bytes) return bytes.error();
  const std::string name = file.name + ": header";
  const auto header =
      parseJson(name, {reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!header) return header.error();
  if (!header->is_object()) return Error(Code::kInvalid, name + ": is not a JSON object");
  PlacedArrays content;
  std::vector<Entry> entries;
  for (const auto& [key, value] : header->items()) {
    if (key == kMetadata) {
      auto metadata = readMetadata(value);
      if (!metadata) return std::move(metadata).error().during(name);
      content.metadata = *std::move(metadata);
      continue;
    }
    auto entry = readEntry(key, value);
    if (!entry) return std::move(entry).error().during(name);
    entries.push_back(*std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  const std::size_t data_offset = cursor.offset();
  if (auto placed = checkPlaces(file, data_offset, entries); !placed) {
    return std::move(placed).error();
  }
  for (Entry& entry : entries) {
    content.arrays.push_back({.name = std::move(entry.name),
                              .dtype = entry.dtype,
                              .shape = std::move(entry.shape),
                              .offset = data_offset + entry.begin});
  }
  return content;
}

Result<std::pair<std::string, std::size_t>> changedHeader(
    const FileBytes& file, const std::map<std::string, std::optional<std::string>>& changes) {
  const auto sound = placeSafetensors(file);
  if (!sound) return sound.error();
  Cursor cursor(file);
  const auto length = cursor.little<std::uint64_t>("the header's size");
  if (!length) return length.error();
  const std::size_t end = cursor.offset() + static_cast<std::size_t>(*length);
  ordered_json header = ordered_json::parse(file.text().substr(cursor.offset(), *length));
  for (const auto& [name, text] : changes) {
    if (text) {
      header[kMetadata][name] = *text;
    } else if (header.contains(kMetadata)) {
      header[kMetadata].erase(name);
    }
  }
  auto bytes = headerBytes(header);
  if (!bytes) return std::move(bytes).error();
  return std::pair(*std::move(bytes), end);
}

Result<Safetensors> parseSafetensors(const FileBytes& file) {
  auto placed = placeSafetensors(file);
  if (!placed) return std::move(placed).error();
  Safetensors content{.arrays = {}, .metadata = std::move(placed->metadata)};
  for (PlacedArray& array : placed->arrays) {
    std::string name = std::move(array.name);
    content.arrays.emplace_back(std::move(name), arrayAt(file, array));
  }
  return content;
}

Result<Safetensors> readSafetensors(const std::string& path) {
  const auto file = loadFile(path);
  if (!file) return file.error();
  try {
    return parseSafetensors(*file);
  } catch (const std::bad_alloc&) {
    return Error(Code::kUnavailable, path + ": there is not enough memory to read it");
  }
}

Status writeSafetensors(const std::string& path, const Safetensors& content) {
  const std::vector<std::size_t> order = writingOrder(content.arrays);
  const auto header = makeHeader(content, order);
  if (!header) return Error(header.error()).during("write " + path);
  auto file = NewFile::create(path);
  if (!file) return std::move(file).error();
  const auto wrote =
      writeParts(content, order, *header, [&](std::string_view part) { return file->write(part); });
  return wrote ? file->keep() : wrote;
}

Status writeSafetensorsTo(const std::function<Status(std::string_view)>& write,
                          const Safetensors& content) {
  const std::vector<std::size_t> order = writingOrder(content.arrays);
  const auto header = makeHeader(content, order);
  if (!header) return header.error();
  return writeParts(content, order, *header, write);
}

Status writeSafetensorsTo(int fd, const Safetensors& content) {
  return writeSafetensorsTo([fd](std::string_view part) { return writeAll(fd, part); }, content);
}

}  // namespace dure::format
