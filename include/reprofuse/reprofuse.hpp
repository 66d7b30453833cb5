// The C++ API in one include.
#pragma once

#include "reprofuse/context.hpp"
#include "reprofuse/error.hpp"
#include "reprofuse/linear.hpp"
#include "reprofuse/types.hpp"
