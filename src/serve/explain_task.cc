#include <algorithm>

#include <fmt/core.h>

#include "serve/json_reader.h"
#include "serve/request_task.h"

namespace dure::serve {
namespace {

// All rows together; of longer texts only the first words are weighed.
constexpr std::int64_t kMostExplainedNumbers = 8'000'000;

// The text as it is, and once without each of its words.
class ExplainTask : public RequestTask {
 public:
  explicit ExplainTask(HttpRequest request) : body_(std::move(request.body)) {}

  Status decode(const ModelInfo& info, Samples& samples) override {
    if (info.kind != InputKind::kText || info.index.empty())
      return Error(Code::kInvalid, "only a text model with a word index can explain a text");
    if (auto read = readText(); !read) return read;
    words_ = info.index.split(text_);
    samples.shape = info.shape;
    first_ = appendSample(words_, info.shape[0], samples.words);
    samples.rows = 1;
    std::vector<TextWord> rest(words_.begin() + static_cast<std::ptrdiff_t>(first_), words_.end());
    const auto most = static_cast<std::size_t>(kMostExplainedNumbers / info.shape[0]);
    weighed_ = std::min(rest.size(), most);
    for (std::size_t i = 0; i < weighed_; ++i) {
      std::vector<TextWord> without = rest;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
      // A text that was cut has no start: its place is the last word that was left out.
      if (first_ > 0) without.insert(without.begin(), words_[first_ - 1]);
      appendSample(without, info.shape[0], samples.words);
      ++samples.rows;
    }
    return {};
  }

  HttpReply encode(const ModelInfo&, const Predictions& predictions) override {
    const std::size_t outputs =
        predictions.values.size() / static_cast<std::size_t>(predictions.rows);
    const auto row = [&](std::size_t i) {
      return std::span(predictions.values).subspan(i * outputs, outputs);
    };
    const std::size_t chosen = classOf(row(0));
    // Of a single output, which is that of class 1, the rest is that of class 0.
    const auto probability = [&](std::size_t i) {
      if (outputs > 1) return row(i)[chosen];
      return chosen == 1 ? row(i)[0] : 1 - row(i)[0];
    };
    HttpReply reply;
    std::string& out = reply.body;
    out = "{\"prediction\": [";
    for (std::size_t i = 0; i < outputs; ++i) {
      if (i > 0) out += ", ";
      appendJsonNumber(out, row(0)[i]);
    }
    out += "], \"words\": [";
    const std::vector<std::size_t> offsets = byteOffsets();
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const TextWord& word = words_[i];
      out += i > 0 ? ", {\"text\": " : "{\"text\": ";
      appendJsonString(out, std::string_view(text_).substr(
                                offsets[word.start], offsets[word.end] - offsets[word.start]));
      fmt::format_to(std::back_inserter(out),
                     ", \"start\": {}, \"end\": {}, \"known\": {}, \"weight\": ", word.start,
                     word.end, word.known);
      appendJsonNumber(out, i < first_ || i >= first_ + weighed_
                                ? 0
                                : probability(0) - probability(i - first_ + 1));
      out += '}';
    }
    fmt::format_to(std::back_inserter(out), "], \"truncated\": {}}}\n", first_ > 0);
    return reply;
  }

 private:
  Status readText() {
    JsonReader json(body_);
    std::string key;
    bool seen = false;
    if (!json.beginObject()) return json.error();
    while (json.nextKey(key)) {
      if (key == "text" && !seen) {
        seen = true;
        if (!json.readString(text_)) return json.error();
      } else if (!json.skip()) {
        return json.error();
      }
    }
    if (!json.atEnd()) return json.error();
    if (!seen) return Error(Code::kInvalid, "the request has no text");
    return {};
  }

  // Of every code point of the text, and of its end.
  std::vector<std::size_t> byteOffsets() const {
    std::vector<std::size_t> offsets;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if ((static_cast<unsigned char>(text_[i]) & 0xc0) != 0x80) offsets.push_back(i);
    }
    offsets.push_back(text_.size());
    return offsets;
  }

  std::string body_;
  std::string text_;
  std::vector<TextWord> words_;
  std::size_t first_ = 0;  // of the words that the model sees
  std::size_t weighed_ = 0;
};

}  // namespace

std::unique_ptr<RequestTask> makeExplainTask(HttpRequest request) {
  return std::make_unique<ExplainTask>(std::move(request));
}

}  // namespace dure::serve
