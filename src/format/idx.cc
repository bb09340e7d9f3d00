#include "format/idx.h"

#include <optional>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "format/array_split.h"
#include "format/inflate.h"

namespace dure::format {
namespace {

struct Header {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::size_t data_offset;
  std::size_t data_bytes;
};

std::optional<DType> typeOf(std::byte code) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return DType::kU8;
    case 0x09:
      return DType::kI8;
    case 0x0b:
      return DType::kI16;
    case 0x0c:
      return DType::kI32;
    case 0x0d:
      return DType::kF32;
    case 0x0e:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

Result<Header> readHeader(const FileBytes& file) {
  Cursor cursor(file);
  const auto magic = cursor.take(4, "the idx header");
  if (!magic) return magic.error();
  if ((*magic)[0] != std::byte{0} || (*magic)[1] != std::byte{0}) {
    return damaged(file, 0, "this is not an idx file: it does not begin with two zero bytes");
  }
  const auto type = typeOf((*magic)[2]);
  if (!type) {
    return damaged(file, 2,
                   fmt::format("unknown idx type {:#04x}", std::to_integer<int>((*magic)[2])));
  }
  Header header{.dtype = *type, .shape = {}, .data_offset = 0, .data_bytes = 0};
  const int dimensions = std::to_integer<int>((*magic)[3]);
  if (dimensions == 0) return damaged(file, 3, "the header says 0 dimensions");
  for (int i = 0; i < dimensions; ++i) {
    const auto size = cursor.big32("a size in the idx header");
    if (!size) return size.error();
    header.shape.push_back(*size);
  }
  const auto bytes = checkedBytes(header.dtype, header.shape);
  if (!bytes) return damaged(file, 4, "the sizes in the header are too large");
  header.data_offset = cursor.offset();
  header.data_bytes = *bytes;
  return header;
}

Result<FileBytes> unpack(const FileBytes& file) {
  return inflateAll(file, Packing::kGzip, file.name,
                    [](const FileBytes& head) -> Result<std::size_t> {
                      const auto header = readHeader(head);
                      if (!header) return header.error();
                      return header->data_offset + header->data_bytes;
                    });
}

// "train-images-idx3-ubyte", "train-images.idx3-ubyte", either with ".gz": NAME-WORD, idx,
// anything.
bool nameFits(const std::string& file, const std::string& split, const std::string& word) {
  const std::string begin = split + "-" + word;
  if (file.size() <= begin.size() || !file.starts_with(begin)) return false;
  const std::string_view rest = std::string_view(file).substr(begin.size());
  return rest.starts_with("-idx") || rest.starts_with(".idx");
}

// The first file of the directory that fits; a plain one before one that must be unpacked.
std::optional<std::string> findFile(const std::string& directory,
                                    const std::vector<std::string>& splits,
                                    const std::vector<std::string>& words) {
  const std::vector<std::string> files = listDirectory(directory);
  for (const bool packed : {false, true}) {
    for (const std::string& split : splits) {
      for (const std::string& word : words) {
        for (const std::string& file : files) {
          if (file.ends_with(".gz") == packed && nameFits(file, split, word)) {
            return fmt::format("{}/{}", directory, file);
          }
        }
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> sampleWords(const DatasetOptions& options) {
  if (!options.samples.empty()) return {options.samples};
  return {"images", "data", "samples"};
}

std::vector<std::string> labelWords(const DatasetOptions& options) {
  if (!options.labels.empty()) return {options.labels};
  return {"labels"};
}

Result<Array> readIdxFile(const std::string& path) {
  const auto file = mapFile(path);
  if (!file) return file.error();
  return readIdx(*file);
}

// Null if there is neither a file of samples nor one of labels.
Result<std::unique_ptr<SourceSplit>> openSplit(const DatasetOptions& options,
                                               const std::vector<std::string>& splits) {
  const auto samples = findFile(options.path, splits, sampleWords(options));
  const auto labels = findFile(options.path, splits, labelWords(options));
  if (!samples && !labels) return std::unique_ptr<SourceSplit>();
  if (!samples || !labels) {
    return Error(Code::kNotFound,
                 fmt::format("{}: there is {} but no file of {} beside it", options.path,
                             samples ? *samples : *labels, samples ? "labels" : "samples"));
  }
  auto sample_array = readIdxFile(*samples);
  if (!sample_array) return std::move(sample_array).error();
  auto label_array = readIdxFile(*labels);
  if (!label_array) return std::move(label_array).error();
  return makeArraySplit(*samples, *std::move(sample_array), *labels, *std::move(label_array));
}

}  // namespace

Result<Array> readIdx(const FileBytes& file) {
  FileBytes plain = file;
  if (isGzip(file)) {
    auto unpacked = unpack(file);
    if (!unpacked) return std::move(unpacked).error();
    plain = *std::move(unpacked);
  }
  auto header = readHeader(plain);
  if (!header) return std::move(header).error();
  if (plain.size() - header->data_offset != header->data_bytes) {
    return damaged(plain, header->data_offset,
                   fmt::format("the header says {} bytes but the file has {}", header->data_bytes,
                               plain.size() - header->data_offset));
  }
  const std::byte* const data = plain.bytes.data() + header->data_offset;
  // Most significant byte first.
  return Array{.dtype = header->dtype,
               .shape = std::move(header->shape),
               .data = data,
               .owner = plain.owner,
               .swapped = sizeOf(header->dtype) > 1};
}

bool looksLikeIdx(const std::string& directory) {
  for (const std::string& file : listDirectory(directory)) {
    if (file.find("-idx") != std::string::npos || file.find(".idx") != std::string::npos) {
      return true;
    }
  }
  return false;
}

Result<Source> openIdx(const DatasetOptions& options) {
  if (!isDirectory(options.path)) {
    return Error(Code::kInvalid,
                 options.path +
                     ": one idx file is no data set; give the directory with the files "
                     "of samples and labels");
  }
  Source source;
  auto train = openSplit(options, trainNames(options));
  if (!train) return std::move(train).error();
  if (!*train) {
    return Error(Code::kNotFound,
                 fmt::format("{}: no idx files named {}-images-idx3-ubyte and {}-labels-idx1-ubyte",
                             options.path, trainNames(options)[0], trainNames(options)[0]));
  }
  source.train = *std::move(train);
  auto test = openSplit(options, testNames(options));
  if (!test) return std::move(test).error();
  source.test = *std::move(test);
  return source;
}

}  // namespace dure::format
