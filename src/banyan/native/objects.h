/* Python's view of the tables. */

#ifndef BANYAN_OBJECTS_H
#define BANYAN_OBJECTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "native.h"

typedef struct {
    PyObject_HEAD
    Pieces pieces;
} PiecesObject;

typedef struct {
    PyObject_HEAD
    Characters characters;
} CharactersObject;

typedef struct {
    PyObject_HEAD
    Trees trees;
    Py_buffer embedding;
} TreesObject;

typedef struct {
    PyObject_HEAD
    Lexical lexical;
    Py_buffer table;
} LexicalObject;

extern PyTypeObject *PiecesType, *CharactersType, *TreesType, *LexicalType;
bool make_types(PyObject *module);

/* Get a contiguous buffer with items of this size, or set an error. */
bool get(PyObject *object, Py_buffer *view, Py_ssize_t itemsize, bool writable, const char *what);
Py_ssize_t count(const Py_buffer *view);
void *copy_of(PyObject *object, Py_ssize_t itemsize, int64_t *n, const char *what);
/* Set an error if something is wrong, and return whether it is. */
bool refuse(bool wrong, const char *what);
bool outside(const int32_t *numbers, int64_t n, int64_t limit);
PyObject *create(PyTypeObject *type);
void dealloc_of(PyObject *self);

#endif
