# The only file that sets floating-point flags. Every target that computes links reprofuse_fp.
# No contraction: a fused multiply-add happens where the source says fma, and nowhere else.
add_library(reprofuse_fp INTERFACE)
target_compile_options(
  reprofuse_fp
  INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-fast-math>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-unsafe-math-optimizations>
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>
    $<$<COMPILE_LANGUAGE:CUDA>:--ftz=false>
    $<$<COMPILE_LANGUAGE:CUDA>:--prec-div=true>
    $<$<COMPILE_LANGUAGE:CUDA>:--prec-sqrt=true>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffp-contract=off>)
set(REPROFUSE_REFUSED_FLAG -ffast-math)  # what the sources themselves refuse; a test compiles with it
