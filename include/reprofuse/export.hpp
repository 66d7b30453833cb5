// Symbols are hidden unless marked: the library's ABI is what carries REPROFUSE_API.
#pragma once

#define REPROFUSE_API __attribute__((visibility("default")))
