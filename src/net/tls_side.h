#pragma once

namespace dure::net {

enum class TlsSide { kClient, kServer };

}  // namespace dure::net
