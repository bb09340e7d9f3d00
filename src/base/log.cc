#include "base/log.h"

#include <atomic>
#include <cstdlib>
#include <memory>

// One word for a level, here and in DURE_LOG.
#define SPDLOG_LEVEL_NAMES \
  { "trace", "debug", "info", "warn", "error", "critical", "off" }
// spdlog's headers are included here alone: they take seconds to compile.
#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace dure {
namespace {

constexpr const char* kLogPattern = "%Y-%m-%dT%H:%M:%S.%eZ %l %n: %v";

std::atomic<LogLevel> log_level{LogLevel::kWarn};

spdlog::level::level_enum spdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// Never destroyed: threads may speak until the process ends.
spdlog::sinks::sink& logSink() {
  static auto* const sink = [] {
    auto* made = new spdlog::sinks::stderr_sink_mt;
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        kLogPattern, spdlog::pattern_time_type::utc, "\n"));
    return made;
  }();
  return *sink;
}

// What others wrote stays one line, and tells the terminal nothing.
void escapeControls(std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  text = std::move(escaped);
}

}  // namespace

std::optional<LogLevel> logLevelNamed(std::string_view name) {
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError, LogLevel::kOff}) {
    const auto known = spdlog::level::to_string_view(spdlogLevel(level));
    if (name == std::string_view(known.data(), known.size())) return level;
  }
  return std::nullopt;
}

void setLogLevel(LogLevel level) { log_level = level; }

Status setLogLevelFromEnvironment() {
  const char* name = std::getenv(kLogVariable);
  if (name == nullptr || *name == '\0') return {};
  const auto level = logLevelNamed(name);
  if (!level) {
    return Error(
        Code::kInvalid,
        fmt::format("{}: must be debug, info, warn, error or off, got \"{}\"", kLogVariable, name));
  }
  setLogLevel(*level);
  return {};
}

bool isLogged(LogLevel level) { return level >= log_level.load(std::memory_order_relaxed); }

void writeLog(LogLevel level, std::string_view part, fmt::string_view format,
              fmt::format_args arguments) {
  std::string text = fmt::vformat(format, arguments);
  escapeControls(text);
  logSink().log(spdlog::details::log_msg(spdlog::string_view_t(part.data(), part.size()),
                                         spdlogLevel(level),
                                         spdlog::string_view_t(text.data(), text.size())));
}

}  // namespace dure
