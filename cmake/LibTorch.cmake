# libtorch, for the folders that do arithmetic. Its headers take 20 seconds in every file, so all that
# include them share one precompiled header.
find_library(TORCH_LIBRARY torch REQUIRED)
find_library(TORCH_CPU_LIBRARY torch_cpu REQUIRED)
find_library(C10_LIBRARY c10 REQUIRED)
find_path(TORCH_API_INCLUDE torch/torch.h PATH_SUFFIXES torch/csrc/api/include REQUIRED)

add_library(dure_libtorch INTERFACE)
target_include_directories(dure_libtorch SYSTEM INTERFACE ${TORCH_API_INCLUDE})
target_compile_definitions(dure_libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(dure_libtorch INTERFACE ${TORCH_LIBRARY} ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})

# Built once, reused by every target of dure_use_libtorch; position-independent for the Python module.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/libtorch_header.cc CONTENT "")  # written once, compiled once
add_library(dure_libtorch_header STATIC ${CMAKE_BINARY_DIR}/libtorch_header.cc)
target_link_libraries(dure_libtorch_header PUBLIC dure_libtorch)
target_compile_options(dure_libtorch_header PRIVATE -fPIC $<$<CONFIG:Release>:-O3>)
target_precompile_headers(
  dure_libtorch_header PRIVATE <torch/torch.h> <torch/script.h>
  <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp> <torch/csrc/distributed/c10d/TCPStore.hpp>
  <torch/csrc/distributed/c10d/PrefixStore.hpp>)

function(dure_use_libtorch target)
  target_link_libraries(${target} PUBLIC dure_libtorch)
  # Said in the same way for programs and libraries: the header must be compiled as they are.
  target_compile_options(${target} PRIVATE -fPIC $<$<CONFIG:Release>:-O3>)
  target_precompile_headers(${target} REUSE_FROM dure_libtorch_header)
endfunction()
