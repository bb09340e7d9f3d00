#pragma once

namespace dure::train {

// Lets the allocator keep what was freed, instead of giving it back to the system: every step needs
// the same tensors again, and pages from the system must be cleared first. Call it once, before the
// first tensor.
void keepFreedMemory();

}  // namespace dure::train
