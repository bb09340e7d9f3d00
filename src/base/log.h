#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "base/result.h"

namespace dure {

// The variable that says which lines are written, and is handed on to agents and pods.
constexpr const char* kLogVariable = "DURE_LOG";

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

// "debug", "info", "warn", "error", "off"; nothing for other words.
std::optional<LogLevel> logLevelNamed(std::string_view name);

// Lines below this level are not written. It is kWarn until somebody says otherwise.
void setLogLevel(LogLevel level);
// As DURE_LOG says; nothing changes where it is not set. Invalid if it is none of the levels.
Status setLogLevelFromEnvironment();

// True if lines of this level are written.
bool isLogged(LogLevel level);

// Writes one line to standard error: time, level, the part of the program that speaks, the words.
// May be called from any thread. Never hand it secrets, nor values of the environment.
void writeLog(LogLevel level, std::string_view part, fmt::string_view format,
              fmt::format_args arguments);

template <typename... Arguments>
void logDebug(std::string_view part, fmt::format_string<Arguments...> format,
              Arguments&&... arguments) {
  if (isLogged(LogLevel::kDebug)) {
    writeLog(LogLevel::kDebug, part, format, fmt::make_format_args(arguments...));
  }
}

template <typename... Arguments>
void logInfo(std::string_view part, fmt::format_string<Arguments...> format,
             Arguments&&... arguments) {
  if (isLogged(LogLevel::kInfo)) {
    writeLog(LogLevel::kInfo, part, format, fmt::make_format_args(arguments...));
  }
}

template <typename... Arguments>
void logWarn(std::string_view part, fmt::format_string<Arguments...> format,
             Arguments&&... arguments) {
  if (isLogged(LogLevel::kWarn)) {
    writeLog(LogLevel::kWarn, part, format, fmt::make_format_args(arguments...));
  }
}

}  // namespace dure
