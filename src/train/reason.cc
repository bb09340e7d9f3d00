#include "train/reason.h"

#include <c10/util/Exception.h>

namespace dure::train {

std::string reasonOf(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  text.erase(text.find_last_not_of('\n') + 1);
  // The interpreter of TorchScript begins with a traceback, and ends with what was raised.
  const bool traced = text.find("failed in the TorchScript interpreter") != std::string::npos;
  return traced ? text.substr(text.rfind('\n') + 1) : text.substr(0, text.find('\n'));
}

}  // namespace dure::train
