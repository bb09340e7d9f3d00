#pragma once

namespace boost::asio {}

namespace dure {
namespace asio = boost::asio;
}
