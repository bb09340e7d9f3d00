# GoogleTest's headers, compiled once for all test programs.
if(NOT DURE_FUZZ)
  file(WRITE ${CMAKE_BINARY_DIR}/gtest_header.cc "")
  add_library(dure_gtest_header STATIC ${CMAKE_BINARY_DIR}/gtest_header.cc)
  target_link_libraries(dure_gtest_header PRIVATE GTest::gmock)
  target_precompile_headers(dure_gtest_header PRIVATE <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
endif()

# dure_library(NAME [TEST_LIBS lib…] LIBS lib…): the library of the folder that calls it, from all its
# .cc files but the tests, and one test program from its *_test.cc files. A new file is picked up by
# itself, so no test can be left out by forgetting to list it.
# With TORCH, both are built against libtorch, through its precompiled header. FAST is for what computes.
function(dure_library name)
  cmake_parse_arguments(ARG "TORCH;FAST" "" "LIBS;TEST_LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc)
  if(tests)
    list(REMOVE_ITEM sources ${tests})
  endif()
  add_library(dure_${name} STATIC ${sources})
  target_include_directories(dure_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(dure_${name} PUBLIC ${ARG_LIBS})
  # libtorch's precompiled header alone takes 12 seconds to load.
  set(batch 12)
  if(ARG_TORCH)
    set(batch 16)
  endif()
  set_target_properties(dure_${name} PROPERTIES UNITY_BUILD ${DURE_UNITY} UNITY_BUILD_BATCH_SIZE
                                                                          ${batch})
  if(ARG_FAST)
    target_compile_options(dure_${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  if(ARG_TORCH)
    dure_use_libtorch(dure_${name})
  endif()
  if(tests AND NOT DURE_FUZZ)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE dure_${name} ${ARG_TEST_LIBS} GTest::gmock_main)
    if(ARG_TORCH)
      dure_use_libtorch(${name}_test)
    else()
      # As the header is compiled.
      target_compile_options(${name}_test PRIVATE -fPIC)
      target_precompile_headers(${name}_test REUSE_FROM dure_gtest_header)
    endif()
    set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                  ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME unit/${name} COMMAND ${name}_test)
    set_tests_properties(unit/${name} PROPERTIES LABELS unit TIMEOUT 120)
  endif()
endfunction()
