#pragma once

namespace dure {

enum class TlsSide { kClient, kServer };

}  // namespace dure
