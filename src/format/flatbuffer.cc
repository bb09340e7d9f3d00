#include "format/flatbuffer.h"

namespace dure::format {

FlatTable FlatBuffer::root() { return {this, follow(0)}; }

std::string_view FlatBuffer::text(std::size_t at, std::size_t size) {
  if (at > bytes_.size() || bytes_.size() - at < size) {
    damaged_ = true;
    return {};
  }
  return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
}

FlatTable FlatVector::table(std::uint32_t index) const {
  return {buffer_, buffer_->follow(first_ + index * step_)};
}

std::size_t FlatTable::find(unsigned field) const {
  if (buffer_ == nullptr) return 0;
  // A table begins with how far back its list of fields lies.
  const auto fields =
      static_cast<std::int64_t>(at_) - std::int64_t{buffer_->number<std::int32_t>(at_)};
  if (fields < 0) {
    buffer_->setDamaged();
    return 0;
  }
  const auto list = static_cast<std::size_t>(fields);
  const std::size_t slot = 4 + std::size_t{field} * 2;
  if (slot + 2 > buffer_->number<std::uint16_t>(list)) return 0;
  const std::size_t offset = buffer_->number<std::uint16_t>(list + slot);
  return offset == 0 ? 0 : at_ + offset;
}

FlatTable FlatTable::table(unsigned field) const {
  const std::size_t at = find(field);
  if (at == 0) return {};
  return {buffer_, buffer_->follow(at)};
}

std::string_view FlatTable::text(unsigned field) const {
  const std::size_t at = find(field);
  if (at == 0) return {};
  const std::size_t start = buffer_->follow(at);
  return buffer_->text(start + 4, buffer_->number<std::uint32_t>(start));
}

FlatVector FlatTable::vector(unsigned field, std::size_t step) const {
  const std::size_t at = find(field);
  if (at == 0) return {};
  const std::size_t start = buffer_->follow(at);
  const auto size = buffer_->number<std::uint32_t>(start);
  // All of it must be there, so that loops over it end.
  buffer_->text(start + 4, size * step);
  if (buffer_->damaged()) return {};
  return {buffer_, start + 4, size, step};
}

}  // namespace dure::format
