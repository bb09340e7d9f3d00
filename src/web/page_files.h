#pragma once

#include <span>
#include <string_view>

namespace dure::web {

// A file of a page as HTTP sends it. All of it lives as long as the program.
struct PageFile {
  // What follows the host in the address: "/", "/assets/index-CE3_LVx8.css". All but "/" and
  // "/index.html" have their content's hash in the name, so browsers may keep them for ever.
  std::string_view path;
  // Content-Type.
  std::string_view type;
  // ETag, with its quotes: a hash of the content.
  std::string_view etag;
  std::span<const unsigned char> content;
  // The same as Content-Encoding: gzip has it.
  std::span<const unsigned char> gzip;
};

// The page of the model server, made of web/src/serve when the program was built; "/" is the first.
std::span<const PageFile> pageFiles();

}  // namespace dure::web
