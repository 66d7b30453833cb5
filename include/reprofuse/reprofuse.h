/* The C ABI of ReproFuse: plain C99, stable within one value of REPROFUSE_ABI_VERSION.
 *
 * Failing: every call that can fail returns a reprofuse_status, and reprofuse_last_error() then says what was wrong,
 * with the value and the place. No call prints, aborts or lets a C++ exception out. A NULL handle is an error, not a
 * crash.
 *
 * Handles are opaque. Each has one reprofuse_..._destroy(), which takes NULL too. What a handle needs it keeps alive by
 * itself: a model its checkpoint, an engine its model, answers their engine; the order of destruction does not matter.
 * Any number of threads may use a handle at a time, unless its comment says otherwise.
 *
 * Structs that may grow begin with struct_size and struct_version. reprofuse_..._init(&it, sizeof it) sets both and the
 * defaults; a struct that a call reads and that was not made so is refused. Structs that the library fills need not be
 * made: they are given with their size, and say in these fields what was filled. c/base.h says how a program and a
 * library of different ages understand each other. All other structs stay as they are within an ABI version.
 *
 * Texts are UTF-8. A const char* argument is read during the call alone. Strides count elements, not bytes. Whoever
 * gets memory through a char**, an int32_t** or a reprofuse_text_span** gives it back with reprofuse_free().
 */
#ifndef REPROFUSE_REPROFUSE_H_
#define REPROFUSE_REPROFUSE_H_

#include "reprofuse/c/base.h"
#include "reprofuse/c/layers.h"
#include "reprofuse/c/model.h"
#include "reprofuse/c/text.h"

#endif /* REPROFUSE_REPROFUSE_H_ */
