// The checksums of a zip file, compared without unpacking more than a piece at a time.

#include <zlib.h>

#include <algorithm>
#include <array>

#include "format/crc32.h"
#include "format/npz_writer.h"

namespace dure::format {
namespace {

constexpr std::size_t kPieceOfZip = std::size_t{4} << 20u;

using PieceRead = std::function<Status(std::uint64_t)>;

Result<std::uint32_t> sumStored(std::span<const std::byte> bytes, const PieceRead& read,
                                const RunAll& run) {
  std::vector<std::uint32_t> sums((bytes.size() + kPieceOfZip - 1) / kPieceOfZip);
  const auto piece = [&](std::size_t number) {
    const std::size_t begin = number * kPieceOfZip;
    return bytes.subspan(begin, std::min(kPieceOfZip, bytes.size() - begin));
  };
  auto summed = run(sums.size(), [&](std::size_t number) {
    sums[number] = crc32Of(piece(number));
    return read(piece(number).size());
  });
  if (!summed) return std::move(summed).error();
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) sum = joinCrc32(sum, sums[i], piece(i).size());
  return sum;
}

// The sum of what the bytes unpack to, and its size.
struct Unpacked {
  std::uint32_t sum = 0;
  std::uint64_t size = 0;
};

Result<Unpacked> sumDeflated(const FileBytes& packed, const PieceRead& read) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return Error(Code::kUnavailable, packed.name + ": there is not enough memory to unpack it");
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::array<std::byte, 1u << 16u> out{};
  Unpacked unpacked;
  std::span<const std::byte> left = packed.bytes;
  int state = Z_OK;
  while (state == Z_OK && !left.empty()) {
    const auto piece = left.first(std::min(left.size(), kPieceOfZip));
    left = left.subspan(piece.size());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = out.size();
      state = inflate(&stream, Z_NO_FLUSH);
      const std::size_t made = out.size() - stream.avail_out;
      unpacked.sum = crc32Of(std::span(out).first(made), unpacked.sum);
      unpacked.size += made;
    } while (state == Z_OK && stream.avail_out == 0);
    if (state == Z_BUF_ERROR) state = Z_OK;  // it wants more
    if (auto goes_on = read(piece.size()); !goes_on) return std::move(goes_on).error();
  }
  if (state != Z_STREAM_END) {
    return Error(Code::kInvalid, packed.name + ": cannot be unpacked: the file is damaged");
  }
  return unpacked;
}

Status verifyMember(const FileBytes& file, const ZipMember& member, const PieceRead& read,
                    const RunAll& run) {
  const auto packed = packedBytes(file, member);
  if (!packed) return packed.error();
  Unpacked found{.sum = 0, .size = member.size};
  if (member.deflated) {
    const auto unpacked = sumDeflated(*packed, read);
    if (!unpacked) return unpacked.error();
    found = *unpacked;
  } else {
    const auto sum = sumStored(packed->bytes, read, run);
    if (!sum) return sum.error();
    found.sum = *sum;
  }
  if (found.sum == member.crc && found.size == member.size) return {};
  return Error(Code::kInvalid, packed->name + ": the checksum is wrong: the file is damaged");
}

}  // namespace

Status runInOrder(std::size_t count, const std::function<Status(std::size_t)>& work) {
  for (std::size_t i = 0; i < count; ++i) {
    if (auto done = work(i); !done) return done;
  }
  return {};
}

Status verifyZip(const FileBytes& file, const PieceRead& read, const RunAll& run) {
  const auto members = readZipDirectory(file);
  if (!members) return members.error();
  for (const ZipMember& member : *members) {
    if (auto sound = verifyMember(file, member, read, run); !sound) return sound;
  }
  return {};
}

}  // namespace dure::format
