#include "format/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include <fmt/core.h>

namespace dure::format {
namespace {

class Inflater {
 public:
  Inflater(const FileBytes& packed, Packing packing)
      : packed_(packed), gzip_(packing == Packing::kGzip) {
    ready_ = inflateInit2(&stream_, gzip_ ? 16 + MAX_WBITS : -MAX_WBITS) == Z_OK;
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `out` as far as the data goes.
  Result<std::size_t> read(std::span<std::byte> out) {
    if (!ready_) return Error(Code::kIo, packed_.name + ": zlib cannot start");
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      // zlib counts in 32 bits.
      constexpr std::size_t kStep = 1u << 30u;
      const std::size_t in = std::min(packed_.size() - used_, kStep);
      const std::size_t room = std::min(out.size() - done, kStep);
      stream_.next_in =
          reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed_.bytes.data())) + used_;
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data()) + done;
      stream_.avail_out = static_cast<uInt>(room);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      used_ += in - stream_.avail_in;
      done += room - stream_.avail_out;
      if (code == Z_STREAM_END) {
        ended_ = !nextMember();
      } else if (code == Z_BUF_ERROR && used_ == packed_.size()) {
        return damaged(packed_, used_, "the compressed data ends too early");
      } else if (code != Z_OK) {
        return damaged(packed_, used_,
                       fmt::format("the compressed data is damaged ({})",
                                   stream_.msg != nullptr ? stream_.msg : "no reason given"));
      }
    }
    return done;
  }

  std::size_t used() const { return used_; }

 private:
  // A .gz file may be several, one after the other.
  bool nextMember() {
    if (!gzip_ || used_ + 2 > packed_.size()) return false;
    if (packed_.bytes[used_] != std::byte{0x1f} || packed_.bytes[used_ + 1] != std::byte{0x8b}) {
      return false;
    }
    return inflateReset(&stream_) == Z_OK;
  }

  const FileBytes& packed_;
  const bool gzip_;
  z_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
  std::size_t used_ = 0;
};

}  // namespace

Result<FileBytes> inflateAll(const FileBytes& packed, Packing packing, const std::string& name,
                             const TotalSize& total_size) {
  Inflater inflater(packed, packing);
  auto head = std::make_shared<std::vector<std::byte>>(kInflateHead);
  const auto got = inflater.read(*head);
  if (!got) return got.error();
  head->resize(*got);
  const auto total = total_size({.name = name, .bytes = *head, .owner = head});
  if (!total) return total.error();
  if (*total / kBestDeflateRatio > packed.size()) {
    return damaged(packed, 0,
                   fmt::format("the header says {} bytes, more than {} compressed bytes can hold",
                               *total, packed.size()));
  }
  // Shared, since arrays are views of it. One byte more, to see whether there is more than there
  // should be.
  const std::shared_ptr<std::byte[]> memory(new std::byte[*total + 1]);
  const std::size_t known = std::min(*got, *total + 1);
  std::copy_n(head->begin(), known, memory.get());
  head.reset();
  const auto rest = inflater.read({memory.get() + known, *total + 1 - known});
  if (!rest) return rest.error();
  if (known + *rest != *total) {
    return damaged(packed, inflater.used(),
                   fmt::format("the header says {} bytes but the compressed data holds {}", *total,
                               known + *rest > *total ? "more" : std::to_string(known + *rest)));
  }
  if (inflater.used() != packed.size()) {
    return damaged(packed, inflater.used(), "there is more after the end of the compressed data");
  }
  return FileBytes{.name = name, .bytes = {memory.get(), *total}, .owner = memory};
}

bool isGzip(const FileBytes& file) { return file.text().starts_with("\x1f\x8b"); }

Result<FileBytes> inflateGzip(const FileBytes& packed) {
  const auto count = [&](const FileBytes&) -> Result<std::size_t> {
    Inflater inflater(packed, Packing::kGzip);
    std::vector<std::byte> piece(kInflateHead);
    std::size_t total = 0;
    while (true) {
      const auto got = inflater.read(piece);
      if (!got) return got.error();
      total += *got;
      if (*got < piece.size()) return total;
    }
  };
  return inflateAll(packed, Packing::kGzip, packed.name, count);
}

}  // namespace dure::format
