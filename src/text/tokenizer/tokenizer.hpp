#pragma once

#include "reprofuse/tokenizer.hpp"
