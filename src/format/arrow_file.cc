#include "format/arrow_file.h"

#include <iterator>
#include <map>
#include <optional>

#include <fmt/core.h>

namespace dure::format {
namespace {

// Arrow's Message.fbs.
enum HeaderNumber : std::uint8_t { kHeaderSchema = 1, kHeaderDictionary = 2, kHeaderBatch = 3 };

constexpr std::string_view kArrowMagic = "ARROW1";
constexpr std::uint32_t kContinuation = 0xffffffff;

// The size of the next message's head; 0 at the end of the stream. A file that ends without that
// mark is taken for one that was cut short: every writer leaves it.
Result<std::size_t> headSize(const FileBytes& file, Cursor& cursor) {
  if (cursor.left() == 0) {
    return damaged(file, file.size(), "the mark of the stream's end is missing: it was cut short");
  }
  auto size = cursor.little<std::uint32_t>("a message's size");
  // Before Arrow 0.15 the size came first.
  if (size && *size == kContinuation) size = cursor.little<std::uint32_t>("a message's size");
  if (!size) return size.error();
  return std::size_t{*size};
}

struct Message {
  std::size_t offset = 0;
  std::span<const std::byte> head;
  std::span<const std::byte> body;
};

// None at the end of the stream.
Result<std::optional<Message>> nextMessage(const FileBytes& file, Cursor& cursor) {
  Message message{.offset = cursor.offset()};
  const auto size = headSize(file, cursor);
  if (!size) return size.error();
  if (*size == 0) return std::optional<Message>();
  const auto head_bytes = cursor.take(*size, "a message's head");
  if (!head_bytes) return head_bytes.error();
  message.head = *head_bytes;
  FlatBuffer head(message.head);
  const auto body_size = head.root().number<std::int64_t>(3, 0);
  if (head.damaged() || body_size < 0) return damaged(file, message.offset, "a message is damaged");
  const auto body = cursor.take(static_cast<std::size_t>(body_size), "a message's body");
  if (!body) return body.error();
  message.body = *body;
  return std::optional<Message>(message);
}

// Where messages lie. Those of a file format are found by offsets, and could be found twice.
class Taken {
 public:
  // False if bytes of it are taken already.
  bool add(std::size_t begin, std::size_t end) {
    const auto after = ranges_.lower_bound(begin);
    if (after != ranges_.end() && after->first < end) return false;
    if (after != ranges_.begin() && std::prev(after)->second > begin) return false;
    ranges_.emplace(begin, end);
    return true;
  }

 private:
  std::map<std::size_t, std::size_t> ranges_;  // from where to where
};

// Adds what the message says. The reason for refusing it has no offset yet.
Status addMessage(const Message& message, bool& has_schema, ArrowFile& arrow) {
  FlatBuffer head(message.head);
  const FlatTable content = head.root().table(2);
  switch (head.root().number<std::uint8_t>(1, 0)) {
    case kHeaderSchema: {
      if (has_schema) return Error(Code::kInvalid, "there is a second schema");
      auto schema = readArrowSchema(content);
      if (!schema) return std::move(schema).error();
      arrow.schema = *std::move(schema);
      has_schema = true;
      break;
    }
    case kHeaderDictionary:
      return Error(Code::kInvalid, "the data has dictionaries, which are not read");
    case kHeaderBatch: {
      if (!has_schema) return Error(Code::kInvalid, "there is data before the schema");
      auto batch = readArrowBatch(arrow.schema, content, message.body);
      if (!batch) return std::move(batch).error();
      batch->offset = message.offset;
      if (batch->rows > 0) arrow.batches.push_back(*std::move(batch));
      break;
    }
    default:
      return Error(Code::kInvalid, "unknown kind of message");
  }
  if (head.damaged()) return Error(Code::kInvalid, "the message leads out of itself");
  return {};
}

Status readStream(ArrowFile& arrow) {
  Cursor cursor(arrow.file);
  bool has_schema = false;
  while (true) {
    const auto message = nextMessage(arrow.file, cursor);
    if (!message) return message.error();
    if (!*message) break;
    if (auto added = addMessage(**message, has_schema, arrow); !added) {
      return damaged(arrow.file, (*message)->offset, added.error().message());
    }
  }
  if (!has_schema) return damaged(arrow.file, 0, "there is no Arrow schema");
  return {};
}

// The file format ends with a table of where its batches are, that table's size, and ARROW1 again.
Status readFooter(ArrowFile& arrow) {
  const FileBytes& file = arrow.file;
  constexpr std::size_t kTail = 4 + kArrowMagic.size();
  if (file.size() < kArrowMagic.size() + 2 + kTail || !file.text().ends_with(kArrowMagic)) {
    return damaged(file, file.size(), "the end of the file is missing: it was cut short");
  }
  const std::size_t tail = file.size() - kTail;
  const auto size = Cursor(file, tail).little<std::uint32_t>("the footer's size");
  if (!size) return size.error();
  if (*size > tail) {
    return damaged(file, tail,
                   fmt::format("the footer says {} bytes but the file has {}", *size, tail));
  }
  FlatBuffer footer(file.bytes.subspan(tail - *size, *size));
  auto schema = readArrowSchema(footer.root().table(1));
  if (!schema) return damaged(file, tail - *size, schema.error().message());
  arrow.schema = *std::move(schema);
  constexpr std::size_t kBlockBytes = 24;
  const FlatVector blocks = footer.root().vector(3, kBlockBytes);
  Taken taken;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    Cursor cursor(file, blocks.number<std::uint64_t>(i));
    const auto message = nextMessage(file, cursor);
    if (!message) return message.error();
    if (!*message) return damaged(file, cursor.offset(), "there is no message here");
    if (!taken.add((*message)->offset, cursor.offset())) {
      return damaged(file, (*message)->offset, "the footer names the same data twice");
    }
    bool has_schema = true;
    if (auto added = addMessage(**message, has_schema, arrow); !added) {
      return damaged(file, (*message)->offset, added.error().message());
    }
  }
  if (footer.damaged()) return damaged(file, tail - *size, "the footer leads out of itself");
  return {};
}

}  // namespace

Result<ArrowFile> readArrow(const FileBytes& file) {
  ArrowFile arrow{.file = file};
  auto read = file.text().starts_with(kArrowMagic) ? readFooter(arrow) : readStream(arrow);
  if (!read) return std::move(read).error();
  return arrow;
}

}  // namespace dure::format
