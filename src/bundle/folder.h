#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// The folder that is sent along with a job: a gzip'ed tar archive (ustar, with pax headers where
// that is too narrow).
namespace dure::bundle {

// In its root: what is not sent, in the language of .gitignore.
inline constexpr std::string_view kIgnoreFile = ".dureignore";
inline constexpr int kFolderDepth = 100;

struct FolderOptions {
  std::int64_t limit = 64 << 20;     // of the files' sizes together
  std::int64_t entries = 100'000;    // files, links and directories
  std::vector<std::string> without;  // paths in the folder that are left out
};

struct Folder {
  std::string archive;
  std::string sha256;      // of the archive, in hexadecimal
  std::int64_t files = 0;  // and links
  std::int64_t bytes = 0;  // of the files, before packing
};

// Packs what is below `directory`: files, links as they are, and directories, but nothing that is
// ignored, no `.git`, and no sockets, pipes or devices. The same content gives the same archive:
// owners and times are left out, and modes are 0755 for what its owner may run, else 0644.
// Invalid, naming what is largest, if it is too large; Conflict if a file changes meanwhile.
Result<Folder> packFolder(const std::string& directory, const FolderOptions& options = {});

// What an archive can cost at most, whatever it says.
struct UnpackLimits {
  std::int64_t bytes = std::int64_t{16} << 30;  // that come out of it
  std::int64_t entries = 100'000;               // with directories that it does not mention
};

// Unpacks into `directory`, which is made if it is not there; files of the same names are replaced.
// Whatever the archive says, nothing outside of `directory` is touched, nothing is written through
// a link, and no more than `limits` comes out. A link may point anywhere: nobody follows it
// here. Invalid if the archive is damaged, not whole, or asks for anything else; what was unpacked
// before that was seen is left.
Status unpackFolder(std::string_view archive, const std::string& directory,
                    const UnpackLimits& limits = {});

}  // namespace dure::bundle
