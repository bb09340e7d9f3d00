#include <iostream>
#include <string>
#include <vector>

#include "base/process.h"
#include "cli/cli.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  dure::raiseDescriptorLimit();
  return dure::cli::run(std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr);
}
