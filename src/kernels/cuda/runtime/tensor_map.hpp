// How the TMA of compute capability 9.0 and later sees a matrix in device memory: as boxes of rows and columns.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>

namespace reprofuse::cuda {

struct BoxedMatrix {
  const void* data;  // rows start on 16 bytes
  int element_bytes;
  std::int64_t rows, columns, stride;
  int box_rows, box_columns;
  // In a box, 16-byte vector v of row r lies at v ^ r % 8, so that reads of 8 rows of 128 bytes meet no bank twice.
  bool swizzle_128b;
};

// An error names the matrix: `what` it is of linear layer `name`.
CUtensorMap tensor_map_of(const BoxedMatrix& matrix, const char* what, const std::string& name);

}  // namespace reprofuse::cuda
