// Whatever a rank reports, it is refused or can be worked with: written, read back, summed up.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "base/text.h"
#include "protocol/report.h"
#include "runs/run_reader.h"

namespace {

using namespace dure;

void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken: " << what << "\n";
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> lines = split(text, '\n');
  std::vector<std::string> written;
  for (const std::string& line : lines) {
    const auto report = protocol::parseReport(line);
    require(!report || static_cast<bool>(protocol::checkReport(line)),
            "what is refused is not parsed");
    if (!report) continue;
    const nlohmann::json copy = *report;
    written.push_back(copy.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    const auto again = protocol::parseReport(written.back());
    require(again.has_value() || written.back().size() > protocol::kLargestReport,
            "what was written is read again");
  }
  static_cast<void>(runs::lastStepOf(lines));
  static_cast<void>(runs::lossesOf(lines));
  require(!runs::lastStepOf(lines) || runs::lastStepOf(written).has_value(), "a step is kept");
  return 0;
}
