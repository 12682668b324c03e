// For processes on Slurm: has a task prefer the node that holds most bytes of its input files.
//
//     include { beside } from './intarsia.nf'
//     process clean { clusterOptions { beside(reads) } … }
//
// `params.intarsia_python` is a Python that has the package intarsia. With `--intarsia_form prefer` a task
// runs elsewhere while that node is busy, with `nodelist` it waits for it, and with `none` nothing is
// said; `beside(reads, 'nodelist')` says it for one process. Where nothing is known of the input, the
// log says why, and the task runs anywhere.

params.intarsia_python = 'python3'
params.intarsia_form = 'prefer'

def beside(files, form = params.intarsia_form) {
    if (form == 'none')
        return ''
    def paths = (files instanceof Collection ? files : [files]).collect { it.toRealPath().toString() }
    def words = [params.intarsia_python, '-m', 'intarsia.engines.slurm', '--form', form]
    def asked = new ProcessBuilder(words + paths).redirectErrorStream(true).start()
    def said = asked.inputStream.text.trim()
    if (asked.waitFor() == 0)
        return said
    log.warn "intarsia.engines.slurm: ${said}"
    return ''
}
