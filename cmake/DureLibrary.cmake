add_custom_target(unit_tests)
# Those of folders that have threads, and those of folders that use libtorch: some sanitizers watch only them.
add_custom_target(threads_unit_tests)
add_custom_target(torch_unit_tests)

# What sanitizers are told: libtorch and the libraries below it are not built for them.
set(sanitizer_environment
    "ASAN_OPTIONS=detect_container_overflow=0"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/sanitizers/leak.txt:print_suppressions=0"
    "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/sanitizers/thread.txt:print_suppressions=0:die_after_fork=0")

# GoogleTest's headers, compiled once for all test programs.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gtest_header.cc CONTENT "")
add_library(dure_gtest_header STATIC ${CMAKE_BINARY_DIR}/gtest_header.cc)
target_link_libraries(dure_gtest_header PRIVATE GTest::gmock)
target_precompile_headers(dure_gtest_header PRIVATE <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)

# Replaces the files of a list by a few that include them. By paths below src/, unlike CMake's own unity builds: a
# checkout in another folder then finds them in the compiler cache.
function(dure_batches list name torch)
  set(size 12)
  if(torch)
    set(size 16)  # libtorch's precompiled header alone takes 12 seconds to load
  endif()
  set(rest ${${list}})
  set(batches "")
  while(rest)
    list(SUBLIST rest 0 ${size} files)
    list(REMOVE_ITEM rest ${files})
    set(text "")
    foreach(file ${files})
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src)
      string(APPEND text "#include \"${file}\"\n")
    endforeach()
    list(LENGTH batches number)
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cc)
    file(CONFIGURE OUTPUT ${batch} CONTENT "${text}")  # leaves it alone if it says the same
    list(APPEND batches ${batch})
  endwhile()
  set(${list} ${batches} PARENT_SCOPE)
endfunction()

# dure_library(NAME [TORCH] [FAST] [THREADS] [TEST_LIBS lib…] LIBS lib…): the library of the folder that calls it, from all its
# .cc files and those of folders in it, but the tests, and one test program from its *_test.cc files. A new file
# is picked up by itself, so no test can be left out by forgetting to list it.
# Fakes that tests share are test_*.cc: they make up dure_NAME_testing, which the tests of this folder are linked with,
# and those of others that name it in TEST_LIBS. No program is.
# With TORCH, both are built against libtorch, through its precompiled header. FAST is for what computes, THREADS
# for what starts threads. NOT_TSAN names tests (GoogleTest's pattern) that the thread sanitizer cannot run.
function(dure_library name)
  cmake_parse_arguments(ARG "TORCH;FAST;THREADS" "NOT_TSAN" "LIBS;TEST_LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc */*.cc)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc */*_test.cc)
  file(GLOB fakes CONFIGURE_DEPENDS test_*.cc)
  if(tests)
    list(REMOVE_ITEM sources ${tests})
    list(REMOVE_ITEM fakes ${tests})
  endif()
  if(fakes)
    list(REMOVE_ITEM sources ${fakes})
  endif()
  if(DURE_UNITY)
    dure_batches(sources batch "${ARG_TORCH}")
    dure_batches(fakes fake_batch "${ARG_TORCH}")
  endif()
  add_library(dure_${name} STATIC ${sources})
  target_include_directories(dure_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(dure_${name} PUBLIC ${ARG_LIBS})
  if(ARG_FAST)
    target_compile_options(dure_${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  if(ARG_TORCH)
    dure_use_libtorch(dure_${name})
  endif()
  if(fakes)
    add_library(dure_${name}_testing STATIC EXCLUDE_FROM_ALL ${fakes})
    target_link_libraries(dure_${name}_testing PUBLIC dure_${name})
    list(APPEND ARG_TEST_LIBS dure_${name}_testing)
  endif()
  if(tests)
    if(DURE_UNITY)
      dure_batches(tests test_batch "${ARG_TORCH}")
    endif()
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
    add_dependencies(unit_tests ${name}_test)
    add_test(NAME unit/${name} COMMAND ${name}_test)
    set(labels unit)
    foreach(label threads torch)
      string(TOUPPER ${label} option)
      if(ARG_${option})
        list(APPEND labels ${label})
        add_dependencies(${label}_unit_tests ${name}_test)
      endif()
    endforeach()
    set_tests_properties(unit/${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
    if(DURE_SANITIZE)
      set(environment ${sanitizer_environment})
      if(DURE_SANITIZE STREQUAL "thread" AND ARG_NOT_TSAN)
        list(APPEND environment "GTEST_FILTER=-${ARG_NOT_TSAN}")
      endif()
      set_tests_properties(unit/${name} PROPERTIES ENVIRONMENT "${environment}")
    endif()
  endif()
endfunction()
