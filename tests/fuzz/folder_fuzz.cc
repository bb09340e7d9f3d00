// Any bytes are refused as a folder's archive, or unpack to a folder that packs and unpacks to the
// same again. Nothing outside of the folder changes.

#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/files.h"
#include "bundle/folder.h"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;
constexpr dure::bundle::UnpackLimits kLimits{.bytes = 1 << 20, .entries = 200};

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

// In memory where there is such a place; gone with the program.
struct Workshop {
  Workshop() {
    path = std::string(fs::exists("/dev/shm") ? "/dev/shm/" : "/tmp/") + "dure-fuzz-XXXXXX";
    require(mkdtemp(path.data()) != nullptr, "there is a place for files");
  }
  ~Workshop() { static_cast<void>(dure::removeTree(path)); }
  std::string path;
};

const std::string& workshop() {
  static const Workshop only;
  return only.path;
}

std::string gzip(const std::string& bytes) {
  std::string packed(bytes.size() + 1024, '\0');
  z_stream stream{};
  require(deflateInit2(&stream, 0, Z_DEFLATED, 16 + MAX_WBITS, 8, 0) == Z_OK, "zlib starts");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "there is room for the archive");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// Guessing a checksum takes too long: every block that begins like a header gets the right one.
void repairChecksums(std::string& tar) {
  for (std::size_t at = 0; at + kBlock <= tar.size(); at += kBlock) {
    if (std::memcmp(&tar[at + 257], "ustar", 6) != 0) continue;
    std::memset(&tar[at + 148], ' ', 8);
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(tar[at + i]);
    char digits[8];
    snprintf(digits, sizeof digits, "%06o", sum);
    std::memcpy(&tar[at + 148], digits, 7);
  }
}

void unpack(const std::string& archive) {
  const std::string inside = workshop() + "/a/inside";
  require(static_cast<bool>(dure::removeTree(workshop() + "/a")), "the place is cleared");
  fs::create_directories(inside);
  std::ofstream(workshop() + "/a/old") << "old";
  fs::create_symlink("../old", inside + "/old");
  fs::create_symlink("..", inside + "/up");
  const dure::Status unpacked = dure::bundle::unpackFolder(archive, inside, kLimits);
  require(dure::listDirectory(workshop() + "/a") == std::vector<std::string>{"inside", "old"} &&
              dure::listDirectory(workshop()) == std::vector<std::string>{"a"},
          "nothing is made outside");
  const auto old = dure::readFile(workshop() + "/a/old", 100);
  require(old && *old == "old", "nothing outside is written");
  if (!unpacked) return;
  const auto packed = dure::bundle::packFolder(inside);
  // It may name in .dureignore what it brings, or be what cannot be packed.
  if (!packed) return;
  const dure::Status again = dure::bundle::unpackFolder(packed->archive, workshop() + "/b");
  require(static_cast<bool>(again), "what was packed unpacks");
  const auto twice = dure::bundle::packFolder(workshop() + "/b");
  require(twice && twice->sha256 == packed->sha256, "packing gives the same again");
  require(static_cast<bool>(dure::removeTree(workshop() + "/b")), "the place is cleared");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      unpack(bytes);
      break;
    case 1:
      unpack(gzip(bytes));
      break;
    default:
      repairChecksums(bytes);
      unpack(gzip(bytes));
  }
  return 0;
}
