#pragma once

namespace dure::python {

// From now on the numbers of a tensor of 64 KB and more begin at a page, so that all of them can be
// registered, which takes whole pages: what lies outside of those costs a small all-reduce as much
// as all the rest of it. Does nothing in a program that has an allocator of its own, or with
// zero-copy off.
void beginTensorsAtPages();

}  // namespace dure::python
