#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/text.h"
#include "bundle/folder.h"
#include "bundle/folder_tar.h"
#include "bundle/ignore.h"

namespace dure::bundle {
namespace {

constexpr std::size_t kIgnoreFileLimit = 1 << 20;

Error changed(const std::string& path) {
  return Error(Code::kConflict,
               fmt::format("'{}' changed while it was being packed: try again when nobody writes "
                           "there, or name it in {}",
                           path, kIgnoreFile));
}

// An entry's own trouble: that it is gone is a change.
Error troubleWith(const std::string& path) {
  return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? changed(path) : systemError(path);
}

struct Found {
  TarEntry entry;
  struct stat info {};
};

// Bytes in, gzip out. The same bytes give the same output: there is no time in the header.
class Deflater {
 public:
  Deflater() { ready_ = deflateInit2(&stream_, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, 0) == Z_OK; }
  ~Deflater() {
    if (ready_) deflateEnd(&stream_);
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  bool ready() const { return ready_; }
  void add(std::string_view bytes) { run(bytes, Z_NO_FLUSH); }
  std::string finish() {
    run({}, Z_FINISH);
    return std::move(out_);
  }

 private:
  void run(std::string_view bytes, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    int code = Z_OK;
    do {
      char room[65536];
      stream_.next_out = reinterpret_cast<Bytef*>(room);
      stream_.avail_out = sizeof room;
      code = deflate(&stream_, flush);
      out_.append(room, sizeof room - stream_.avail_out);
    } while (stream_.avail_in > 0 || (flush == Z_FINISH && code != Z_STREAM_END));
  }

  z_stream stream_{};
  bool ready_ = false;
  std::string out_;
};

class Packer {
 public:
  Packer(std::string directory, const FolderOptions& options)
      : directory_(std::move(directory)), options_(options) {}

  Result<Folder> pack() {
    root_ = Fd(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root_) return systemError(directory_);
    if (auto rules = readRules(); !rules) return std::move(rules).error();
    if (auto walked = walk("", 0); !walked) return std::move(walked).error();
    if (folder_.bytes > options_.limit) return tooLarge();
    std::sort(found_.begin(), found_.end(),
              [](const Found& a, const Found& b) { return a.entry.path < b.entry.path; });
    if (!deflater_.ready()) return Error(Code::kIo, "zlib cannot start");
    for (const Found& found : found_) {
      if (auto added = add(found); !added) return std::move(added).error();
    }
    deflater_.add(tarEnd());
    folder_.archive = deflater_.finish();
    folder_.sha256 = sha256Hex(folder_.archive);
    return std::move(folder_);
  }

 private:
  Status readRules() {
    const std::string path = directory_ + "/" + std::string(kIgnoreFile);
    if (!fileExists(path)) return {};
    const auto text = readFile(path, kIgnoreFileLimit);
    if (!text) return text.error();
    rules_ = IgnoreRules(*text);
    return {};
  }

  // Finds what there is in this directory ("" is the root) and below.
  Status walk(const std::string& path, int depth) {
    if (depth > kFolderDepth) {
      return Error(Code::kInvalid,
                   fmt::format("'{}' is more than {} directories deep: name it in {}", path,
                               kFolderDepth, kIgnoreFile));
    }
    Fd fd(openat(root_.get(), path.empty() ? "." : path.c_str(),
                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return troubleWith(path);
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(fd.get()), closedir);
    if (!listing) return systemError(path);
    fd.release();
    std::vector<std::string> below;
    while (true) {
      errno = 0;
      const dirent* name = readdir(listing.get());
      if (name == nullptr && errno != 0) return systemError(path);
      if (name == nullptr) break;
      const std::string_view last = name->d_name;
      if (last == "." || last == ".." || last == ".git") continue;
      const std::string whole = (path.empty() ? "" : path + "/") + name->d_name;
      if (std::count(options_.without.begin(), options_.without.end(), whole) > 0) continue;
      auto seen = look(whole);
      if (!seen) return std::move(seen).error();
      if (*seen) below.push_back(found_.back().entry.path);
    }
    for (const std::string& next : below) {
      if (auto walked = walk(next, depth + 1); !walked) return walked;
    }
    return {};
  }

  // Remembers the entry unless it is not to be sent. True if it is a directory to be looked into.
  Result<bool> look(const std::string& path) {
    Found found;
    if (fstatat(root_.get(), path.c_str(), &found.info, AT_SYMLINK_NOFOLLOW) != 0) {
      return troubleWith(path);
    }
    const mode_t mode = found.info.st_mode;
    if (!S_ISREG(mode) && !S_ISLNK(mode) && !S_ISDIR(mode)) return false;
    if (rules_.ignores(path, S_ISDIR(mode))) return false;
    if (std::ssize(found_) == options_.entries) {
      return Error(Code::kInvalid,
                   fmt::format("more than {} files: name those that the programs do not need in {}",
                               options_.entries, kIgnoreFile));
    }
    found.entry.path = path;
    found.entry.kind = S_ISDIR(mode)   ? TarEntry::Kind::kDirectory
                       : S_ISLNK(mode) ? TarEntry::Kind::kLink
                                       : TarEntry::Kind::kFile;
    if (!S_ISDIR(mode)) ++folder_.files;
    if (S_ISREG(mode)) {
      found.entry.size = found.info.st_size;
      found.entry.executable = (mode & S_IXUSR) != 0;
      folder_.bytes += found.entry.size;
    }
    found_.push_back(std::move(found));
    return S_ISDIR(mode);
  }

  Status add(const Found& found) {
    TarEntry entry = found.entry;
    if (entry.kind == TarEntry::Kind::kFile) return addFile(found);
    if (entry.kind == TarEntry::Kind::kLink) {
      char target[PATH_MAX];
      const ssize_t size = readlinkat(root_.get(), entry.path.c_str(), target, sizeof target);
      if (size <= 0) return changed(entry.path);
      entry.target.assign(target, static_cast<std::size_t>(size));
    }
    deflater_.add(encodeTarEntry(entry));
    return {};
  }

  Status addFile(const Found& found) {
    const std::string& path = found.entry.path;
    // Not blocking, should it have become a pipe.
    const Fd fd(openat(root_.get(), path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd) return troubleWith(path);
    if (!isAsFound(fd, found)) return changed(path);
    deflater_.add(encodeTarEntry(found.entry));
    std::int64_t left = found.entry.size;
    while (left > 0) {
      const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(left, kPiece));
      const ssize_t got = read(fd.get(), piece_.data(), wanted);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return systemError(path);
      if (got == 0) return changed(path);
      deflater_.add({piece_.data(), static_cast<std::size_t>(got)});
      left -= got;
    }
    if (!isAsFound(fd, found)) return changed(path);
    deflater_.add(tarPadding(found.entry.size));
    return {};
  }

  static bool isAsFound(const Fd& fd, const Found& found) {
    struct stat now {};
    return fstat(fd.get(), &now) == 0 && now.st_ino == found.info.st_ino &&
           now.st_dev == found.info.st_dev && now.st_size == found.info.st_size &&
           now.st_mtim.tv_sec == found.info.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == found.info.st_mtim.tv_nsec;
  }

  Error tooLarge() const {
    std::vector<std::string> words;
    for (const auto& [path, size] : largest()) {
      words.push_back(fmt::format("{} ({})", path, describeBytes(size)));
    }
    return Error(
        Code::kInvalid,
        fmt::format("the folder {} has {} to send, more than the limit of {}; the largest are {}: "
                    "name them in {}, or raise program.ship_limit, or put large data on a volume",
                    directory_, describeBytes(folder_.bytes), describeBytes(options_.limit),
                    join(words, ", "), kIgnoreFile));
  }

  using Sized = std::pair<std::string, std::int64_t>;

  // The three entries that it would help most to leave out: those of the root, or what makes up
  // more than half of them.
  std::vector<Sized> largest() const {
    std::map<std::string, std::int64_t> sizes;  // directories end with a slash
    std::map<std::string, std::vector<std::string>> inside;
    for (const Found& found : found_) {
      const bool directory = found.entry.kind == TarEntry::Kind::kDirectory;
      const std::string& path = found.entry.path;
      for (std::size_t slash = path.find('/'); slash != std::string::npos;
           slash = path.find('/', slash + 1)) {
        sizes[path.substr(0, slash + 1)] += found.entry.size;
      }
      const std::string name = path + (directory ? "/" : "");
      sizes[name] += found.entry.size;
      inside[path.substr(0, path.rfind('/') + 1)].push_back(name);
    }
    std::vector<Sized> result;
    for (std::string name : inside[""]) {
      for (bool narrower = true; narrower;) {
        narrower = false;
        for (const std::string& part : inside[name]) {
          if (2 * sizes[part] <= sizes[name]) continue;
          name = part;
          narrower = true;
          break;
        }
      }
      result.emplace_back(name, sizes[name]);
    }
    std::sort(result.begin(), result.end(),
              [](const Sized& a, const Sized& b) { return a.second > b.second; });
    result.resize(std::min<std::size_t>(result.size(), 3));
    return result;
  }

  static std::string describeBytes(std::int64_t bytes) {
    const auto size = static_cast<double>(bytes);
    if (bytes < 1'000'000) return fmt::format("{:.1f} kB", size / 1e3);
    if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", size / 1e6);
    return fmt::format("{:.1f} GB", size / 1e9);
  }

  const std::string directory_;
  const FolderOptions options_;
  Fd root_;
  IgnoreRules rules_{""};
  std::vector<Found> found_;
  std::vector<char> piece_ = std::vector<char>(kPiece);
  Deflater deflater_;
  Folder folder_;
};

}  // namespace

Result<Folder> packFolder(const std::string& directory, const FolderOptions& options) {
  return Packer(directory, options).pack();
}

}  // namespace dure::bundle
