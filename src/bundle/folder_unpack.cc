#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/files.h"
#include "base/text.h"
#include "bundle/folder.h"
#include "bundle/folder_tar.h"

namespace dure::bundle {
namespace {

// What a pax header may take: a path, a link's target, and what other programs add.
constexpr std::int64_t kLargestPax = 1 << 20;

Error refused(const std::string& why) { return Error(Code::kInvalid, why); }

// The bytes of one gzip stream, piece by piece.
class Inflater {
 public:
  Inflater(std::string_view packed, std::int64_t limit) : limit_(limit), rest_(packed) {
    ready_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // So many bytes into `out`, or fewer if the stream ends.
  Result<std::size_t> read(char* out, std::size_t size) {
    if (!ready_) return Error(Code::kIo, "zlib cannot start");
    std::size_t done = 0;
    while (done < size && !ended_) {
      // zlib counts in 32 bits.
      const std::size_t in = std::min(rest_.size(), std::size_t{1} << 30u);
      const std::size_t room = std::min(size - done, std::size_t{1} << 30u);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(out + done);
      stream_.avail_out = static_cast<uInt>(room);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      rest_.remove_prefix(in - stream_.avail_in);
      done += room - stream_.avail_out;
      if (code == Z_STREAM_END) {
        ended_ = true;
      } else if (code == Z_BUF_ERROR && rest_.empty()) {
        return refused("it ends too early");
      } else if (code != Z_OK) {
        return refused("the compressed data is damaged");
      }
    }
    total_ += static_cast<std::int64_t>(done);
    if (total_ > limit_) return refused(fmt::format("it unpacks to more than {} bytes", limit_));
    return done;
  }

  // So many bytes, or an error.
  Status readAll(char* out, std::size_t size) {
    const auto got = read(out, size);
    if (!got) return got.error();
    if (*got != size) return refused("it ends too early");
    return {};
  }

  // To the end of the stream, where its checksum is.
  Status drain() {
    std::vector<char> piece(kPiece);
    while (!ended_) {
      if (const auto got = read(piece.data(), piece.size()); !got) return got.error();
    }
    if (!rest_.empty()) return refused("there is more after its end");
    return {};
  }

 private:
  const std::int64_t limit_;
  std::string_view rest_;
  std::int64_t total_ = 0;
  z_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
};

// The names of a path. Invalid if it would lead out of the folder.
Result<std::vector<std::string>> namesOf(const std::string& path) {
  const auto wrong = [&](const char* why) {
    return refused(fmt::format("the path '{}' {}", toValidUtf8(path), why));
  };
  if (path.starts_with('/')) return wrong("is absolute");
  if (path.find('\0') != std::string::npos) return wrong("has a zero byte");
  std::vector<std::string> names;
  for (std::string& name : split(path, '/')) {
    if (name == "..") return wrong("leads out of the folder");
    if (!name.empty() && name != ".") names.push_back(std::move(name));
  }
  if (std::ssize(names) > kFolderDepth + 1) return wrong("is too deep");
  return names;
}

class Unpacker {
 public:
  Unpacker(std::string_view archive, const UnpackLimits& limits)
      : in_(archive, limits.bytes), limits_(limits) {}

  Status unpack(const std::string& directory) {
    root_ = Fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root_) return systemError(directory);
    while (true) {
      auto more = next();
      if (!more) return std::move(more).error();
      if (!*more) break;
    }
    if (auto drained = in_.drain(); !drained) return drained;
    // Last, so that no file is written where a link stands.
    for (const TarEntry& link : links_) {
      if (auto made = makeLink(link); !made) return made;
    }
    return {};
  }

 private:
  // One entry with all that belongs to it. False at the end.
  Result<bool> next() {
    char block[kTarBlock];
    std::string pax;
    while (true) {
      if (auto read = in_.readAll(block, sizeof block); !read) return std::move(read).error();
      if (std::all_of(std::begin(block), std::end(block), [](char c) { return c == '\0'; })) {
        if (!pax.empty()) return refused("it ends too early");
        return false;
      }
      auto entry = decodeTarHeader({block, sizeof block});
      if (!entry) return std::move(entry).error();
      const bool is_pax = entry->kind == TarEntry::Kind::kPax;
      if (is_pax || entry->kind == TarEntry::Kind::kPaxGlobal) {
        auto text = readPax(entry->size);
        if (!text) return std::move(text).error();
        if (is_pax) pax = std::move(*text);
        continue;
      }
      if (auto counted = countOne(); !counted) return std::move(counted).error();
      if (auto applied = applyPax(pax, *entry); !applied) return std::move(applied).error();
      if (auto made = make(*entry); !made) return std::move(made).error();
      return true;
    }
  }

  Status countOne() {
    if (++entries_ > limits_.entries) {
      return refused(fmt::format("it has more than {} entries", limits_.entries));
    }
    return {};
  }

  Result<std::string> readPax(std::int64_t size) {
    if (size > kLargestPax) return refused("a pax header is too large");
    std::string text(static_cast<std::size_t>(size) + tarPadding(size).size(), '\0');
    if (auto read = in_.readAll(text.data(), text.size()); !read) return std::move(read).error();
    text.resize(static_cast<std::size_t>(size));
    return text;
  }

  Status make(const TarEntry& entry) {
    auto names = namesOf(entry.path);
    if (!names) return std::move(names).error();
    if (entry.kind != TarEntry::Kind::kFile && entry.size != 0) {
      return refused(fmt::format("'{}' has data and is no file", toValidUtf8(entry.path)));
    }
    if (entry.kind == TarEntry::Kind::kDirectory) {
      auto made = enter(*names, names->size(), true);
      return made ? Status() : Status(std::move(made).error());
    }
    if (names->empty()) return refused("an entry has no name");
    if (entry.kind == TarEntry::Kind::kFile) return makeFile(entry, *names);
    links_.push_back(entry);
    return {};
  }

  // The directory that the first `count` of the names lead to, made as far as it is not there. A
  // link in the way is an error.
  Result<Fd> enter(const std::vector<std::string>& names, std::size_t count, bool is_entry) {
    Fd here(fcntl(root_.get(), F_DUPFD_CLOEXEC, 0));
    for (std::size_t i = 0; i < count && here; ++i) {
      const char* name = names[i].c_str();
      const bool is_new = mkdirat(here.get(), name, 0755) == 0;
      if (!is_new && errno != EEXIST) return systemError(toValidUtf8(names[i]));
      if (is_new && (i + 1 < count || !is_entry)) {
        if (auto counted = countOne(); !counted) return std::move(counted).error();
      }
      here = Fd(openat(here.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!here && (errno == ENOTDIR || errno == ELOOP)) {
        return refused(fmt::format("'{}' is in the way and no directory", toValidUtf8(names[i])));
      }
      // Whatever the umask is.
      if (!here || (is_new && fchmod(here.get(), 0755) != 0)) {
        return systemError(toValidUtf8(names[i]));
      }
    }
    if (!here) return systemError("open a directory");
    return here;
  }

  // The directory of the last name, in which that name is free then.
  Result<Fd> makeRoom(const std::vector<std::string>& names) {
    auto parent = enter(names, names.size() - 1, false);
    if (!parent) return parent;
    if (unlinkat(parent->get(), names.back().c_str(), 0) != 0 && errno != ENOENT) {
      return systemError(toValidUtf8(names.back()));
    }
    return parent;
  }

  Status makeFile(const TarEntry& entry, const std::vector<std::string>& names) {
    const auto parent = makeRoom(names);
    if (!parent) return parent.error();
    const Fd fd(openat(parent->get(), names.back().c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const auto failed = [&](Error error) {
      return std::move(error).during("write " + toValidUtf8(entry.path));
    };
    if (!fd) return failed(systemError("open"));
    for (std::int64_t left = entry.size; left > 0;) {
      const auto size = static_cast<std::size_t>(std::min<std::int64_t>(left, kPiece));
      if (auto read = in_.readAll(piece_.data(), size); !read) return read;
      if (auto wrote = writeAll(fd.get(), {piece_.data(), size}); !wrote) {
        return failed(std::move(wrote).error());
      }
      left -= static_cast<std::int64_t>(size);
    }
    if (fchmod(fd.get(), entry.executable ? 0755 : 0644) != 0) return failed(systemError("chmod"));
    return in_.readAll(piece_.data(), tarPadding(entry.size).size());
  }

  Status makeLink(const TarEntry& entry) {
    const auto names = namesOf(entry.path);
    if (!names) return names.error();
    const auto parent = makeRoom(*names);
    if (!parent) return parent.error();
    if (symlinkat(entry.target.c_str(), parent->get(), names->back().c_str()) != 0) {
      return systemError("link " + toValidUtf8(entry.path));
    }
    return {};
  }

  Inflater in_;
  const UnpackLimits limits_;
  Fd root_;
  std::vector<char> piece_ = std::vector<char>(kPiece);
  std::vector<TarEntry> links_;
  std::int64_t entries_ = 0;
};

}  // namespace

Status unpackFolder(std::string_view archive, const std::string& directory,
                    const UnpackLimits& limits) {
  if (auto made = makeDirectories(directory); !made) return made;
  auto unpacked = Unpacker(archive, limits).unpack(directory);
  if (!unpacked) return std::move(unpacked).error().during("unpack the folder of the programs");
  return unpacked;
}

}  // namespace dure::bundle
