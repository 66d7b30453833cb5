# CUDA is built when nvcc is found and left out cleanly when not.
set(REPROFUSE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90-real 100-real 120-real 80-virtual CACHE STRING
    "GPU code in the fat binary; the PTX of the oldest serves every other GPU from 8.0 up")
set(REPROFUSE_HAVE_CUDA OFF)
if(REPROFUSE_CUDA AND NOT CMAKE_CROSSCOMPILING)
  find_program(REPROFUSE_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(REPROFUSE_NVCC)
    set(CMAKE_CUDA_COMPILER ${REPROFUSE_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${REPROFUSE_CUDA_ARCHITECTURES})
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    enable_language(CUDA)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know it
    find_package(CUDAToolkit REQUIRED)
    # The PTX of every architecture stays beside the build, for tools/audit_gpu_code.py.
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/ptx)
    add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--keep> $<$<COMPILE_LANGUAGE:CUDA>:--keep-dir=${PROJECT_BINARY_DIR}/ptx>)
    set(REPROFUSE_HAVE_CUDA ON)
  endif()
endif()
message(STATUS "CUDA backend: ${REPROFUSE_HAVE_CUDA}")
