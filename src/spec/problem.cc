#include "spec/problem.h"

#include <fmt/core.h>

namespace dure::spec {

std::string Problem::text() const {
  std::string text = file;
  if (line > 0) text += fmt::format(":{}:{}", line, column);
  // "--set workers" and "--workers" have named the field already.
  const bool named = line == 0 && (file.ends_with(" " + field) || file.ends_with("-" + field));
  if (!field.empty() && !named) text += (text.empty() ? "" : ": ") + field;
  return text + (text.empty() ? "" : ": ") + message;
}

}  // namespace dure::spec
