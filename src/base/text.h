#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace dure {

// "250ms", "30s", "5m", "1h30m", "2d", or a plain number of seconds. Nothing for anything else,
// negative numbers included.
std::optional<Duration> parseDuration(std::string_view text);
// A text that parseDuration turns back into the same duration: "1m30s".
std::string formatDuration(Duration duration);
// For people, in at most two units: "41 s", "3 m 20 s", "2 h 5 m", "0.35 s".
std::string describeDuration(Duration duration);

// "2Gi", "512Mi", "1500M", "64k", or a plain number of bytes, as Kubernetes writes quantities.
std::optional<std::int64_t> parseBytes(std::string_view text);
std::string formatBytes(std::int64_t bytes);
inline constexpr std::int64_t kMebibyte = 1 << 20;

// The offset of the first byte that is not valid UTF-8.
std::optional<std::size_t> findInvalidUtf8(std::string_view text);
// The same text with every invalid byte replaced, so that it can be put into JSON.
std::string toValidUtf8(std::string_view text);

// The candidate a person most likely meant by `word`; nothing if none is near.
std::optional<std::string> closest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// The words with `separator` between them.
std::string join(const std::vector<std::string>& words, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);

bool contains(std::string_view text, std::string_view words);

// One shell word that means exactly `word`: quoted where it must be.
std::string shellQuote(std::string_view word);

// Equal or not, in a time that depends on the lengths only.
bool equalInConstantTime(std::string_view a, std::string_view b);

}  // namespace dure
