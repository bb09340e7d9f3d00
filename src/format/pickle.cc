#include "format/pickle.h"

#include <map>
#include <optional>

#include <fmt/core.h>

namespace dure::format {
namespace {

// The machine that a pickle is a program for: a stack of values, marks in it, and a memory.
class PickleMachine {
 public:
  explicit PickleMachine(const FileBytes& file) : file_(file), cursor_(file) {}

  Result<Pickle> run() {
    while (!done_) {
      at_ = cursor_.offset();
      const auto code = cursor_.little<std::uint8_t>("an instruction of the pickle");
      if (!code) return code.error();
      if (auto stepped = step(static_cast<char>(*code)); !stepped) {
        return std::move(stepped).error();
      }
    }
    return std::move(pickle_);
  }

 private:
  Error wrong(const std::string& what) const { return damaged(file_, at_, what); }

  Status push(PickleValue value) {
    pickle_.values.push_back(std::move(value));
    stack_.push_back(pickle_.values.size() - 1);
    return {};
  }

  Result<std::size_t> pop() {
    if (stack_.size() <= floor()) return wrong("the pickle takes more than there is");
    const std::size_t value = stack_.back();
    stack_.pop_back();
    return value;
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  // Everything above the last mark.
  Result<std::vector<std::size_t>> popToMark() {
    if (marks_.empty()) return wrong("the pickle has no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::size_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  // The value below which items are put, which must be of the kind.
  Result<PickleValue*> top(PickleKind kind) {
    if (stack_.size() <= floor()) return wrong("the pickle takes more than there is");
    PickleValue& value = pickle_.values[stack_.back()];
    if (value.kind != kind) return wrong("the pickle fills what cannot be filled");
    return &value;
  }

  Status fill(PickleKind kind, std::vector<std::size_t> items) {
    if (kind == PickleKind::kDict && items.size() % 2 != 0) return wrong("a key without a value");
    const auto target = top(kind);
    if (!target) return target.error();
    (*target)->items.insert((*target)->items.end(), items.begin(), items.end());
    return {};
  }

  Status fillToMark(PickleKind kind) {
    auto items = popToMark();
    return items ? fill(kind, *std::move(items)) : Status(std::move(items).error());
  }

  // The last `count` values as one of this kind.
  Status gather(PickleKind kind, int count) {
    std::vector<std::size_t> items(static_cast<std::size_t>(count));
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
      const auto value = pop();
      if (!value) return value.error();
      *item = *value;
    }
    return push({.kind = kind, .items = std::move(items)});
  }

  Status build() {
    const auto state = pop();
    return state ? fill(PickleKind::kObject, {*state}) : Status(state.error());
  }

  template <typename T>
  Status pushNumber() {
    const auto number = cursor_.little<T>("a number");
    if (!number) return number.error();
    return push({.kind = PickleKind::kInt, .number = static_cast<std::int64_t>(*number)});
  }

  Status pushLong() {
    const auto size = cursor_.little<std::uint8_t>("a number");
    if (!size) return size.error();
    const auto bytes = cursor_.take(*size, "a number");
    if (!bytes) return bytes.error();
    if (*size > sizeof(std::int64_t)) return wrong("a number is too large");
    std::int64_t number = *size > 0 && (bytes->back() & std::byte{0x80}) != std::byte{} ? -1 : 0;
    std::memcpy(&number, bytes->data(), *size);
    return push({.kind = PickleKind::kInt, .number = number});
  }

  template <typename Size>
  Status pushText() {
    const auto size = cursor_.little<Size>("a text's size");
    if (!size) return size.error();
    const auto bytes = cursor_.take(*size, "a text");
    if (!bytes) return bytes.error();
    return push({.kind = PickleKind::kText,
                 .text = {reinterpret_cast<const char*>(bytes->data()), bytes->size()}});
  }

  Status pushGlobal() {
    std::string names;
    for (int line = 0; line < 2; ++line) {
      const std::size_t begin = cursor_.offset();
      const std::size_t end = file_.text().find('\n', begin);
      if (end == std::string_view::npos) return wrong("a name has no end");
      if (line > 0) names += ' ';
      names += file_.text().substr(begin, end - begin);
      static_cast<void>(cursor_.take(end + 1 - begin, "a name"));
    }
    return push({.kind = PickleKind::kGlobal, .text = std::move(names)});
  }

  template <typename Number>
  Status remember() {
    const auto number = cursor_.little<Number>("a place in the memory");
    if (!number) return number.error();
    if (stack_.empty()) return wrong("the pickle remembers what is not there");
    memory_[*number] = stack_.back();
    return {};
  }

  template <typename Number>
  Status recall() {
    const auto number = cursor_.little<Number>("a place in the memory");
    if (!number) return number.error();
    const auto found = memory_.find(*number);
    if (found == memory_.end()) return wrong("the pickle recalls what it was never told");
    stack_.push_back(found->second);
    return {};
  }

  Status stop() {
    const auto value = pop();
    if (!value) return value.error();
    if (!stack_.empty()) return wrong("the pickle leaves more than one value");
    pickle_.top = *value;
    done_ = true;
    return {};
  }

  Status pushTuple() {
    auto items = popToMark();
    if (!items) return std::move(items).error();
    return push({.kind = PickleKind::kList, .items = *std::move(items)});
  }

  Status skip(std::size_t bytes, PickleValue value) {
    const auto skipped = cursor_.take(bytes, "an argument");
    return skipped ? push(std::move(value)) : Status(skipped.error());
  }

  Status step(char code) {
    switch (code) {
      case '\x80': {
        const auto protocol = cursor_.little<std::uint8_t>("the protocol");
        return protocol ? Status() : Status(protocol.error());
      }
      case '(':
        marks_.push_back(stack_.size());
        return {};
      case '.':
        return stop();
      case 'N':
        return push({.kind = PickleKind::kNone});
      case '\x88':
      case '\x89':
        return push({.kind = PickleKind::kBool, .number = code == '\x88'});
      case 'J':
        return pushNumber<std::int32_t>();
      case 'K':
        return pushNumber<std::uint8_t>();
      case 'M':
        return pushNumber<std::uint16_t>();
      case '\x8a':
        return pushLong();
      case 'G':
        return skip(sizeof(double), {.kind = PickleKind::kFloat});
      case 'X':
      case 'T':
        return pushText<std::uint32_t>();
      case 'U':
        return pushText<std::uint8_t>();
      case 'c':
        return pushGlobal();
      case ']':
      case ')':
        return push({.kind = PickleKind::kList});
      case '}':
        return push({.kind = PickleKind::kDict});
      case 't':
        return pushTuple();
      case '\x85':
      case '\x86':
      case '\x87':
        return gather(PickleKind::kList, code - '\x84');
      case 'e':
        return fillToMark(PickleKind::kList);
      case 'u':
        return fillToMark(PickleKind::kDict);
      case 'a':
      case 's':
        return fillLast(code == 'a' ? 1 : 2);
      case 'R':
        return gather(PickleKind::kCall, 2);
      case '\x81':
        return newObject();
      case 'b':
        return build();
      case 'Q':
        return gather(PickleKind::kStored, 1);
      case 'q':
        return remember<std::uint8_t>();
      case 'r':
        return remember<std::uint32_t>();
      case 'h':
        return recall<std::uint8_t>();
      case 'j':
        return recall<std::uint32_t>();
      default:
        return wrong(
            fmt::format("instruction {:#04x} of the pickle is none that TorchScript writes",
                        static_cast<unsigned char>(code)));
    }
  }

  // One item into the list, or a key and a value into the dictionary, below them.
  Status fillLast(int count) {
    std::vector<std::size_t> items(static_cast<std::size_t>(count));
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
      const auto value = pop();
      if (!value) return value.error();
      *item = *value;
    }
    return fill(count == 1 ? PickleKind::kList : PickleKind::kDict, std::move(items));
  }

  Status newObject() {
    const auto arguments = pop();
    if (!arguments) return arguments.error();
    return gather(PickleKind::kObject, 1);
  }

  const FileBytes& file_;
  Cursor cursor_;
  Pickle pickle_;
  std::vector<std::size_t> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint32_t, std::size_t> memory_;
  std::size_t at_ = 0;
  bool done_ = false;
};

}  // namespace

const PickleValue* Pickle::find(const PickleValue& dict, const std::string& key) const {
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = at(dict.items[i]);
    if (name.kind == PickleKind::kText && name.text == key) return &at(dict.items[i + 1]);
  }
  return nullptr;
}

Result<Pickle> readPickle(const FileBytes& file) { return PickleMachine(file).run(); }

}  // namespace dure::format
