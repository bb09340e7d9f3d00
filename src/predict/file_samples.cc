#include "predict/file_samples.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/text.h"
#include "format/batch_rows.h"
#include "format/csv_table.h"
#include "format/dataset.h"
#include "format/mapped_file.h"
#include "format/npy.h"
#include "format/npz.h"
#include "serve/sample_reader.h"

namespace dure::predict {
namespace {

namespace fs = std::filesystem;
using Take = std::function<Status(NamedSample)>;

constexpr std::size_t kMostOfFile = std::size_t{1} << 30;

bool isPictureName(const std::string& path) {
  std::string ending = fs::path(path).extension();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

Status takePicture(const std::string& path, const serve::ModelInfo& info, const Take& take) {
  const auto bytes = readFile(path, kMostOfFile);
  if (!bytes) return bytes.error();
  NamedSample made{.name = path, .sample = {}};
  if (auto read = serve::SampleReader(info, made.sample).addPicture(*bytes); !read)
    return std::move(read).error().during(path);
  return take(std::move(made));
}

Status takePictures(const std::string& folder, const serve::ModelInfo& info, const Take& take) {
  for (const std::string& name : listDirectory(folder)) {
    if (!isPictureName(name)) continue;
    if (auto taken = takePicture(folder + "/" + name, info, take); !taken) return taken;
  }
  return {};
}

Status takeTexts(const std::string& path, std::string_view text, const serve::ModelInfo& info,
                 const Take& take) {
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.ends_with('\r')) one.remove_suffix(1);
    if (one.find_first_not_of(" \t") == std::string_view::npos) continue;
    NamedSample made;
    if (auto read = serve::SampleReader(info, made.sample).addText(toValidUtf8(one)); !read)
      return std::move(read).error().during(fmt::format("{}:{}", path, line));
    if (auto taken = take(std::move(made)); !taken) return taken;
  }
  return {};
}

Status takeArray(const std::string& path, const format::Array& array, const serve::ModelInfo& info,
                 const Take& take) {
  if (array.shape.empty()) return Error(Code::kInvalid, path + ": this is one number, not samples");
  const std::int64_t rows = array.shape[0];
  const std::int64_t each = rows == 0 ? 0 : array.elements() / rows;
  const std::span<const std::int64_t> shape = std::span(array.shape).subspan(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> numbers(static_cast<std::size_t>(each));
    for (std::int64_t i = 0; i < each; ++i)
      numbers[static_cast<std::size_t>(i)] =
          static_cast<float>(format::numberAt(array, row * each + i));
    NamedSample made;
    auto read = serve::SampleReader(info, made.sample).addNumbers(1, shape, std::move(numbers));
    if (!read) return std::move(read).error().during(fmt::format("{}: row {}", path, row));
    if (auto taken = take(std::move(made)); !taken) return taken;
  }
  return {};
}

Status takeNpz(const std::string& path, const serve::ModelInfo& info, const Take& take) {
  auto file = format::mapFile(path);
  if (!file) return std::move(file).error();
  const auto npz = format::Npz::open(*std::move(file));
  if (!npz) return npz.error();
  const auto names = npz->names();
  std::string chosen = names.size() == 1 ? names[0] : "";
  for (const char* usual : {"x", "samples", "images", "data", "x_test", "x_train"}) {
    if (chosen.empty() && std::find(names.begin(), names.end(), usual) != names.end())
      chosen = usual;
  }
  if (chosen.empty()) {
    return Error(Code::kInvalid, fmt::format("{}: which array? it has {}; call the samples x", path,
                                             join(names, ", ")));
  }
  const auto array = npz->read(chosen);
  if (!array) return array.error();
  return takeArray(path + ": " + chosen, *array, info, take);
}

Status takeCsv(const format::FileBytes& file, const serve::ModelInfo& info, const Take& take) {
  const auto table = format::CsvTable::open(file);
  if (!table) return table.error();
  static const std::set<std::string> labels{"label", "labels", "class", "target", "y"};
  std::size_t skipped = table->columns();
  for (std::size_t i = 0; i < table->header().size(); ++i) {
    if (labels.count(table->header()[i]) > 0) skipped = i;
  }
  for (std::int64_t row = 0; row < table->rows(); ++row) {
    std::vector<float> numbers;
    auto read =
        table->readRow(row, [&](std::size_t column, const format::CsvField& field) -> Status {
          if (column == skipped) return {};
          const auto number = field.number();
          if (!number) return table->wrong(row, column, "this is no number");
          numbers.push_back(static_cast<float>(*number));
          return {};
        });
    if (!read) return read;
    NamedSample made;
    // A row is flat, whatever the sample's shape is.
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(numbers.size())};
    if (!info.any_shape && format::checkedElements(info.shape) == shape[0]) shape = info.shape;
    auto added = serve::SampleReader(info, made.sample).addNumbers(1, shape, std::move(numbers));
    if (!added)
      return std::move(added).error().during(fmt::format("{}:{}", file.name, table->line(row)));
    if (auto taken = take(std::move(made)); !taken) return taken;
  }
  return {};
}

Status takeDataset(const std::string& path, const serve::ModelInfo& info, const Take& take) {
  const auto data = format::openDataset({.path = path});
  if (!data) return data.error();
  const format::Split& split = data->test != nullptr ? *data->test : *data->train;
  for (std::int64_t row = 0; row < split.size(); ++row) {
    const auto raw = format::readRows(split, std::span(&row, 1));
    if (!raw) return raw.error();
    std::vector<float> numbers(raw->elements());
    auto made_floats = format::toFloats(split, std::span(&row, 1), *raw, {}, numbers.data());
    if (!made_floats) return made_floats;
    NamedSample made;
    auto added = serve::SampleReader(info, made.sample)
                     .addNumbers(1, split.sampleShape(), std::move(numbers));
    if (!added) return std::move(added).error().during(split.whereIs(row));
    if (auto taken = take(std::move(made)); !taken) return taken;
  }
  return {};
}

Status takeBytes(const std::string& name, const std::string& bytes, const serve::ModelInfo& info,
                 const Take& take) {
  if (info.kind == serve::InputKind::kText && !info.index.empty())
    return takeTexts(name, bytes, info, take);
  return takeCsv({.name = name,
                  .bytes = std::as_bytes(std::span(bytes.data(), bytes.size())),
                  .owner = nullptr},
                 info, take);
}

}  // namespace

Status readFileSamples(const std::string& path, const serve::ModelInfo& info, const Take& take) {
  if (path == "-") {
    const auto bytes = readFile("/dev/stdin", kMostOfFile);
    if (!bytes) return bytes.error();
    return takeBytes("standard input", *bytes, info, take);
  }
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const auto names = listDirectory(path);
    const bool pictures = std::any_of(names.begin(), names.end(), isPictureName);
    return pictures ? takePictures(path, info, take) : takeDataset(path, info, take);
  }
  if (!fileExists(path)) return Error(Code::kNotFound, fmt::format("there is no {}", path));
  if (isPictureName(path)) return takePicture(path, info, take);
  if (path.ends_with(".npz")) return takeNpz(path, info, take);
  if (path.ends_with(".npy")) {
    const auto file = format::mapFile(path);
    if (!file) return file.error();
    const auto array = format::readNpy(*file);
    if (!array) return array.error();
    return takeArray(path, *array, info, take);
  }
  if (path.ends_with(".csv") || path.ends_with(".tsv")) {
    const auto file = format::mapFile(path);
    if (!file) return file.error();
    return takeCsv(*file, info, take);
  }
  if (path.ends_with(".txt") || info.kind == serve::InputKind::kText) {
    const auto bytes = readFile(path, kMostOfFile);
    if (!bytes) return bytes.error();
    return takeTexts(path, *bytes, info, take);
  }
  return takeDataset(path, info, take);
}

}  // namespace dure::predict
