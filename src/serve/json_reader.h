#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dure::serve {

// Reads JSON value by value, as it is needed, without a tree of it: a request is mostly numbers,
// which go straight to where the model reads them. Every function returns false once the text turns
// out to be wrong, and error() says where; nothing may be read after that.
class JsonReader {
 public:
  enum class Kind { kObject, kArray, kString, kNumber, kTrue, kFalse, kNull, kEnd, kWrong };

  // The text outlives the reader.
  explicit JsonReader(std::string_view text)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()) {}

  // What the next value is; reads nothing but white space.
  Kind peek();

  // for (r.beginObject(); r.nextKey(key);) … one value …
  bool beginObject();
  bool nextKey(std::string& key);
  bool beginArray();
  bool nextElement();

  bool readString(std::string& out);
  bool readNumber(double& out);
  bool readInteger(std::int64_t& out);
  bool readBool(bool& out);
  // The rest of an array that holds nothing but numbers, appended to `out`; stops in front of the
  // first element that is something else, as nextElement would. Returns how many there were.
  std::size_t readFloats(std::vector<float>& out, bool& ended);
  // One value of any kind, checked and passed over. `raw` is its text.
  bool skip(std::string_view* raw = nullptr);
  // True if nothing but white space is left.
  bool atEnd();

  bool failed() const { return failed_; }
  // "at offset 12: …", once something has failed.
  Error error() const;
  bool fail(const char* what);
  std::size_t offset() const { return static_cast<std::size_t>(at_ - begin_); }

 private:
  void space();
  bool literal(std::string_view word);
  bool escape(std::string& out);
  bool hex4(std::uint32_t& code);
  bool enter();

  const char* const begin_;
  const char* at_;
  const char* const end_;
  std::vector<bool> skipped_objects_;  // of what skip() has opened
  std::vector<bool> first_;  // of every array or object that is open: nothing was read of it yet
  bool failed_ = false;
  std::string why_;
};

// `text` as a JSON string, quotes included; bytes that are not UTF-8 are replaced.
void appendJsonString(std::string& out, std::string_view text);
// The shortest decimal that is the same float; null for what JSON has no word for.
void appendJsonNumber(std::string& out, float number);

}  // namespace dure::serve
