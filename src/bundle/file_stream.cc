#include "bundle/file_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace dure::bundle {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kFilePiece = 256u << 10u;
constexpr std::size_t kLongestHeader = 64u << 10u;
constexpr std::string_view kUnfinished = ".part";
constexpr const char* kHash = "sha256";
// No stream into a folder takes so long.
constexpr std::chrono::hours kLongest{2};

std::string headerLine(const json& header) {
  return header.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// One file: a line that tells its name and size, its bytes, and a line with their hash.
Status sendFile(const std::string& path, const std::string& name, const SendBytes& send) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0) return systemError(path);
  const json header = {
      {"path", name}, {"size", info.st_size}, {"executable", (info.st_mode & 0100) != 0}};
  if (auto sent = send(headerLine(header)); !sent) return sent;
  Sha256 hash;
  std::string piece(kFilePiece, '\0');
  for (off_t left = info.st_size; left > 0;) {
    const ssize_t got =
        read(file.get(), piece.data(), std::min(piece.size(), static_cast<std::size_t>(left)));
    if (got < 0) return systemError(path);
    if (got == 0) return Error(Code::kConflict, path + " became shorter while it was read");
    const auto bytes = std::string_view(piece).substr(0, static_cast<std::size_t>(got));
    hash.add(bytes);
    if (auto sent = send(bytes); !sent) return sent;
    left -= got;
  }
  return send(headerLine({{kHash, hash.takeHex()}}));
}

// Nothing leaves the target.
bool staysInside(const fs::path& path) {
  return path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

}  // namespace

Result<std::vector<NamedFile>> filesOf(const std::string& path) {
  std::error_code error;
  std::vector<NamedFile> files;
  const auto status = fs::symlink_status(path, error);
  if (fs::is_directory(status)) {
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      if (it->is_regular_file(error) && !it->is_symlink(error)) {
        files.push_back({it->path(), it->path().lexically_relative(path)});
      }
    }
    if (error) return Error(Code::kIo, path + ": " + error.message());
    std::sort(files.begin(), files.end(),
              [](const NamedFile& a, const NamedFile& b) { return a.path < b.path; });
  } else if (fs::is_regular_file(status)) {
    files.push_back({path, ""});
  } else {
    return Error(Code::kNotFound, "there is no file or directory " + path);
  }
  return files;
}

Status sendFiles(const std::vector<NamedFile>& files, const SendBytes& send) {
  for (const NamedFile& file : files) {
    if (auto sent = sendFile(file.path, file.name, send); !sent) return sent;
  }
  return send(headerLine({{"files", files.size()}}));
}

Status sendFiles(const std::string& path, const SendBytes& send) {
  const auto files = filesOf(path);
  return files ? sendFiles(*files, send) : files.error();
}

FileReceiver::~FileReceiver() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status FileReceiver::take(std::string_view bytes) {
  while (!bytes.empty()) {
    if (finished_) return Error(Code::kInvalid, "the file stream goes on after its end");
    if (file_ && left_ > 0) {
      const std::string_view piece = bytes.substr(
          0, static_cast<std::size_t>(std::min<std::int64_t>(left_, std::ssize(bytes))));
      if (auto written = writeAll(file_.get(), piece); !written) {
        return std::move(written).error().during(path_);
      }
      hash_.add(piece);
      bytes.remove_prefix(piece.size());
      left_ -= std::ssize(piece);
      bytes_ += std::ssize(piece);
      continue;
    }
    const std::size_t newline = bytes.find('\n');
    line_ += bytes.substr(0, newline);
    if (line_.size() > kLongestHeader) return Error(Code::kInvalid, "malformed file stream");
    if (newline == std::string_view::npos) return {};
    bytes.remove_prefix(newline + 1);
    const std::string line = std::exchange(line_, {});
    if (auto taken = file_ ? end(line) : begin(line); !taken) return taken;
  }
  return {};
}

Status FileReceiver::begin(const std::string& line) {
  const json header = json::parse(line, nullptr, false);
  if (!header.is_object()) return Error(Code::kInvalid, "malformed file stream");
  if (header.contains("files") && header["files"].is_number_integer()) {
    if (header["files"].get<std::int64_t>() != files_) {
      return Error(Code::kInvalid, "the file stream lacks files");
    }
    finished_ = true;
    return {};
  }
  if (!header.contains("size") || !header["size"].is_number_integer() || !header.contains("path") ||
      !header["path"].is_string()) {
    return Error(Code::kInvalid, "malformed file stream");
  }
  const fs::path name = header["path"].get<std::string>();
  left_ = header["size"].get<std::int64_t>();
  if (!staysInside(name) || left_ < 0) return Error(Code::kInvalid, "malformed file stream");
  path_ = name.empty() ? target_ : (fs::path(target_) / name).string();
  temporary_ = path_ + std::string(kUnfinished);
  const std::string parent = fs::path(path_).parent_path();
  if (auto made = makeDirectories(parent.empty() ? "." : parent); !made) return made;
  const auto mode = header.find("executable");
  const bool executable = mode != header.end() && mode->is_boolean() && mode->get<bool>();
  file_ = Fd(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                  executable ? 0755 : 0644));
  if (!file_) return systemError(temporary_);
  return {};
}

Status FileReceiver::end(const std::string& line) {
  const json trailer = json::parse(line, nullptr, false);
  if (!trailer.is_object() || !trailer.contains(kHash)) {
    return Error(Code::kInvalid, "malformed file stream");
  }
  if (trailer[kHash] != hash_.takeHex()) {
    return Error(Code::kUnavailable, path_ + ": was damaged on its way; try again");
  }
  if (fsync(file_.get()) != 0) return systemError(temporary_);
  file_ = Fd();
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return systemError(path_);
  temporary_.clear();
  ++files_;
  return {};
}

Status FileReceiver::finish() {
  if (finished_) return {};
  return Error(Code::kUnavailable, "the connection broke before all files had arrived");
}

Status receiveFolder(int input, const std::string& target) {
  std::string part = target + std::string(kUnfinished) + ".XXXXXX";
  if (mkdtemp(part.data()) == nullptr) return systemError(part);
  FileReceiver files(part);
  std::string piece(kFilePiece, '\0');
  Status taken;
  while (taken && !files.isFinished()) {
    const ssize_t got = read(input, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) taken = systemError("standard input");
    if (got == 0) taken = files.finish();
    if (got > 0)
      taken = files.take(std::string_view(piece).substr(0, static_cast<std::size_t>(got)));
  }
  std::error_code error;
  if (taken) {
    // Whoever reads it may be another user than whoever brought it.
    chmod(part.c_str(), 0755);
    if (rename(part.c_str(), target.c_str()) != 0 && !fs::is_directory(target)) {
      taken = systemError(target);
    } else {
      taken = syncDirectory(fs::path(target).parent_path());
    }
  }
  fs::remove_all(part, error);
  if (!taken) return taken;
  const std::string left = fs::path(target).filename().string() + std::string(kUnfinished);
  for (const auto& entry : fs::directory_iterator(fs::path(target).parent_path(), error)) {
    const bool is_old = fs::file_time_type::clock::now() - entry.last_write_time(error) > kLongest;
    if (is_old && entry.path().filename().string().starts_with(left)) {
      fs::remove_all(entry.path(), error);
    }
  }
  return {};
}

}  // namespace dure::bundle
