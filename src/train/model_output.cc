#include "train/model_output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/files.h"
#include "base/process.h"
#include "base/text.h"

namespace dure::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".tmp";
constexpr std::size_t kTokenLength = 16;

// A directory that goes with what is in it.
struct Staging {
  std::string path;
  explicit Staging(std::string name) : path(std::move(name)) {}
  Staging(const Staging&) = delete;
  ~Staging() { static_cast<void>(removeTree(path)); }
};

bool consistsOf(const std::string& text, const char* letters) {
  return !text.empty() && text.find_first_not_of(letters) == std::string::npos;
}

// Of a directory that a model is written in.
struct WriterName {
  std::string run;
  int generation = 0;
};

std::optional<WriterName> readWriterName(const std::string& middle) {
  const std::vector<std::string> parts = split(middle, '-');
  if (parts.size() != 3 || !consistsOf(parts[2], "0123456789abcdef")) return std::nullopt;
  WriterName writer{.run = parts[0]};
  const char* end = parts[1].data() + parts[1].size();
  const auto [parsed, error] = std::from_chars(parts[1].data(), end, writer.generation);
  if (error != std::errc() || parsed != end || parts[2].size() != kTokenLength) return std::nullopt;
  return writer;
}

// "4711.0" or "4711", as older versions of Dure named what they were writing.
bool isOldName(const std::string& middle) {
  const std::vector<std::string> parts = split(middle, '.');
  if (parts.size() > 2) return false;
  for (const std::string& part : parts) {
    if (!consistsOf(part, "0123456789")) return false;
  }
  return true;
}

// The beginning of the id, without the dashes that some have.
std::string runPart(const std::string& run_id) {
  std::string letters;
  for (const char letter : run_id) {
    if (letters.size() < kTokenLength && std::isalnum(static_cast<unsigned char>(letter)) != 0)
      letters += letter;
  }
  return letters.empty() ? "none" : letters;
}

std::string replaceAll(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

ModelOutput::ModelOutput(const RankEnvironment& here)
    : here_(here),
      path_(absolutePath(here.output)),
      folder_(fs::path(path_).parent_path()),
      name_(fs::path(path_).filename()) {}

Status ModelOutput::check() const {
  const auto wrong = [](const Error& why) {
    return Error(Code::kInvalid, "output: " + why.message());
  };
  std::error_code error;
  if (fs::is_directory(path_, error)) {
    return wrong(Error(Code::kInvalid, here_.output + " is a directory; name a file"));
  }
  if (auto made = makeDirectories(folder_); !made) return wrong(made.error());
  std::string probe = folder_ + "/.dure-output-XXXXXX";
  const Fd file(mkostemp(probe.data(), O_CLOEXEC));
  if (!file) return wrong(systemError(folder_));
  unlink(probe.c_str());
  return {};
}

std::string ModelOutput::writerName() const {
  return fmt::format("{}.{}-{}-{}{}", name_, runPart(here_.run_id), here_.generation,
                     randomToken().substr(0, kTokenLength), kEnding);
}

Status ModelOutput::sweep(const std::string& own) const {
  for (const std::string& entry : listDirectory(folder_)) {
    const std::string begin = name_ + ".";
    if (entry == own || !entry.starts_with(begin) || !entry.ends_with(kEnding)) continue;
    if (entry.size() < begin.size() + std::string_view(kEnding).size()) continue;
    const std::string middle =
        entry.substr(begin.size(), entry.size() - begin.size() - std::string_view(kEnding).size());
    const std::string path = folder_ + "/" + entry;
    const auto writer = readWriterName(middle);
    bool dead = isOldName(middle);
    if (writer && !here_.run_id.empty() && writer->run == runPart(here_.run_id)) {
      if (writer->generation > here_.generation) {
        return Error(Code::kConflict, fmt::format("generation {} of this run writes {} now",
                                                  writer->generation, path_));
      }
      dead = writer->generation < here_.generation;
    }
    // Whoever holds no lock there is not alive; nobody can tell where there are no locks.
    if (writer && !dead) dead = static_cast<bool>(FileLock::acquire(path + "/lock"));
    if (dead) static_cast<void>(removeTree(path));
  }
  return {};
}

Status ModelOutput::write(const Save& save, const std::function<Status()>& allowed) const {
  const std::string own = writerName();
  const Staging staging(folder_ + "/" + own);
  if (mkdir(staging.path.c_str(), 0777) != 0) return systemError("write " + path_);
  const auto lock = FileLock::acquire(staging.path + "/lock");
  if (auto swept = sweep(own); !swept) return swept;
  const std::string staged = staging.path + "/" + name_;
  auto done = save(staged);
  if (!done) return Error(done.error().code(), replaceAll(done.error().message(), staged, path_));
  if (auto still = allowed(); !still) return still;
  // Also the last look whether a later generation has come: it has removed this directory.
  if (rename(staged.c_str(), path_.c_str()) != 0) return systemError("write " + path_);
  return syncDirectory(folder_);
}

Result<std::string> ModelOutput::keepElsewhere(const Save& save) const {
  const char* wanted = std::getenv("TMPDIR");
  std::string temporary =
      std::string(wanted != nullptr && *wanted != '\0' ? wanted : "/tmp") + "/dure-model-XXXXXX";
  std::string why;
  for (const std::string& folder : {here_.checkpoint, here_.directory, temporary}) {
    if (folder.empty()) continue;
    std::string place = folder;
    if (folder == temporary && mkdtemp(place.data()) == nullptr) continue;
    const std::string path = absolutePath(place + "/" + name_);
    if (path == path_) continue;
    const auto saved = save(path);
    if (saved) return path;
    why = saved.error().message();
    if (folder == temporary) rmdir(place.c_str());
  }
  return Error(Code::kIo, why.empty() ? "there is no other place" : why);
}

}  // namespace dure::train
