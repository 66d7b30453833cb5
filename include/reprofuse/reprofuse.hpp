// The C++ API in one include.
#pragma once

#include "reprofuse/answer.hpp"
#include "reprofuse/chat_template.hpp"
#include "reprofuse/checkpoint.hpp"
#include "reprofuse/context.hpp"
#include "reprofuse/engine.hpp"
#include "reprofuse/error.hpp"
#include "reprofuse/linear.hpp"
#include "reprofuse/model.hpp"
#include "reprofuse/ops.hpp"
#include "reprofuse/rotary.hpp"
#include "reprofuse/sampler.hpp"
#include "reprofuse/tokenizer.hpp"
#include "reprofuse/types.hpp"
