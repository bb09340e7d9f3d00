#include "format/npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace dure::format {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
// numpy's own headers are 118 bytes long; hundreds of dimensions would fit, too.
constexpr std::size_t kMaxNpyHeader = 65535;

// Reads the one Python literal that numpy writes:
// {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  std::size_t position() const { return at_; }

  bool accept(char wanted) {
    skipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  std::optional<std::string> string() {
    skipSpace();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  std::optional<bool> boolean() {
    skipSpace();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    return std::nullopt;
  }

  std::optional<std::vector<std::int64_t>> tuple() {
    if (!accept('(')) return std::nullopt;
    std::vector<std::int64_t> values;
    while (!accept(')')) {
      std::int64_t value = 0;
      skipSpace();
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) return std::nullopt;
      at_ = static_cast<std::size_t>(end - text_.data());
      accept('L');  // Python 2's long numbers
      values.push_back(value);
      if (!accept(',')) {
        if (!accept(')')) return std::nullopt;
        break;
      }
    }
    return values;
  }

 private:
  void skipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::optional<DType> typeOf(std::string_view code) {
  constexpr std::pair<std::string_view, DType> kCodes[] = {
      {"b1", DType::kBool}, {"u1", DType::kU8},  {"i1", DType::kI8},  {"u2", DType::kU16},
      {"i2", DType::kI16},  {"u4", DType::kU32}, {"i4", DType::kI32}, {"u8", DType::kU64},
      {"i8", DType::kI64},  {"f2", DType::kF16}, {"f4", DType::kF32}, {"f8", DType::kF64}};
  for (const auto& [name, type] : kCodes) {
    if (name == code) return type;
  }
  return std::nullopt;
}

// Why a type is not read, for people.
std::string refusal(const std::string& descr) {
  const char kind = descr.size() > 1 ? descr[1] : '?';
  if (kind == 'O') return "the array holds Python objects (a pickle), which are not read";
  if (kind == 'S' || kind == 'U' || kind == 'a') return "the array holds texts, not numbers";
  if (kind == 'c') return "the array holds complex numbers, which are not read";
  return fmt::format("numbers of the type '{}' are not read", descr);
}

struct Fields {
  std::string descr;
  bool fortran_order = false;
  std::optional<std::vector<std::int64_t>> shape;
};

Result<Fields> readFields(const FileBytes& head, std::size_t offset, std::string_view text) {
  Literal literal(text);
  Fields fields;
  bool order_known = false;
  const auto unreadable = [&] {
    return damaged(head, offset + literal.position(), "the npy header cannot be read");
  };
  if (!literal.accept('{')) return unreadable();
  while (!literal.accept('}')) {
    const auto key = literal.string();
    if (!key || !literal.accept(':')) return unreadable();
    if (*key == "descr") {
      if (literal.accept('[')) {
        return damaged(head, offset, "the array holds records of several fields, not numbers");
      }
      const auto descr = literal.string();
      if (!descr) return unreadable();
      fields.descr = *descr;
    } else if (*key == "fortran_order") {
      const auto order = literal.boolean();
      if (!order) return unreadable();
      fields.fortran_order = *order;
      order_known = true;
    } else if (*key == "shape") {
      fields.shape = literal.tuple();
      if (!fields.shape) return unreadable();
    } else {
      return damaged(head, offset, fmt::format("unknown field '{}' in the npy header", *key));
    }
    if (!literal.accept(',')) {
      if (!literal.accept('}')) return unreadable();
      break;
    }
  }
  if (fields.descr.empty() || !fields.shape || !order_known) {
    return damaged(head, offset, "the npy header lacks descr, fortran_order or shape");
  }
  return fields;
}

}  // namespace

Result<NpyHeader> readNpyHeader(const FileBytes& head) {
  Cursor cursor(head);
  const auto magic = cursor.take(kNpyMagic.size(), "the npy header");
  if (!magic) return magic.error();
  if (std::memcmp(magic->data(), kNpyMagic.data(), kNpyMagic.size()) != 0) {
    return damaged(head, 0, "this is not a .npy file");
  }
  const auto version = cursor.little<std::uint16_t>("the npy version");
  if (!version) return version.error();
  const int major = *version & 0xff;
  if (major < 1 || major > 3) {
    return damaged(head, 6, fmt::format("unknown npy version {}", major));
  }
  std::size_t length = 0;
  if (major == 1) {
    const auto size = cursor.little<std::uint16_t>("the npy header's size");
    if (!size) return size.error();
    length = *size;
  } else {
    const auto size = cursor.little<std::uint32_t>("the npy header's size");
    if (!size) return size.error();
    length = *size;
  }
  if (length > kMaxNpyHeader) {
    return damaged(head, 8, fmt::format("a header of {} bytes is too large", length));
  }
  const std::size_t offset = cursor.offset();
  const auto text = cursor.take(length, "the npy header");
  if (!text) return text.error();
  auto fields =
      readFields(head, offset, {reinterpret_cast<const char*>(text->data()), text->size()});
  if (!fields) return std::move(fields).error();
  NpyHeader header;
  const char order = fields->descr[0];
  const auto type = typeOf(std::string_view(fields->descr).substr(1));
  if (!type || std::string_view("<>|=").find(order) == std::string_view::npos) {
    return Error(Code::kInvalid, head.name + ": " + refusal(fields->descr));
  }
  header.dtype = *type;
  header.swapped = order == '>' && sizeOf(*type) > 1;
  header.shape = *std::move(fields->shape);
  // With one dimension both orders are the same.
  if (fields->fortran_order && header.shape.size() > 1) {
    return Error(Code::kInvalid, head.name +
                                     ": the array is in Fortran order, which is not read; save it "
                                     "again after numpy.ascontiguousarray");
  }
  header.data_offset = cursor.offset();
  const auto bytes = checkedBytes(header.dtype, header.shape);
  if (!bytes) return damaged(head, offset, "the shape in the header is too large");
  header.data_bytes = *bytes;
  return header;
}

Result<Array> readNpy(const FileBytes& file) {
  auto header = readNpyHeader(file);
  if (!header) return std::move(header).error();
  if (file.size() - header->data_offset != header->data_bytes) {
    return damaged(file, header->data_offset,
                   fmt::format("the header says {} bytes but the file has {}", header->data_bytes,
                               file.size() - header->data_offset));
  }
  const std::byte* const data = file.bytes.data() + header->data_offset;
  return Array{.dtype = header->dtype,
               .shape = std::move(header->shape),
               .data = data,
               .owner = file.owner,
               .swapped = header->swapped};
}

}  // namespace dure::format
